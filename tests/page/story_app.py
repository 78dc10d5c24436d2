"""The tasks of the story, also for the server that shows it."""

import asyncio

from hourbell import Run, Scheduler

scheduler = Scheduler("story")
_STEPS = ("reading orders", "joining customers", "writing the sheets")


@scheduler.task(name="shop.nightly_report")
async def nightly_report(run: Run) -> dict[str, object]:
    for done, step in enumerate(_STEPS, 1):
        run.log(f"{step} of {run.scheduled_at:%Y-%m-%d}")
        run.progress(done / len(_STEPS), step)
        await asyncio.sleep(12 * 60)
    return {"rows": 18_204, "sheets": 3}


@scheduler.task(name="shop.warehouse_sync")
async def warehouse_sync(run: Run) -> dict[str, object]:
    for page in range(1, 4):
        run.log(f"page {page} of 3: 2,000 items")
        run.progress(page / 3, f"page {page} of 3")
        await asyncio.sleep(4.4 * 60)
    return {"items": 6_000}


@scheduler.task(name="shop.db_backup")
async def db_backup(run: Run) -> dict[str, object]:
    run.log("pg_dump shop | zstd | upload")
    await asyncio.sleep(48 * 60)
    return {"bytes": 18_402_113_902}


@scheduler.task(name="shop.search_reindex")
async def search_reindex(run: Run) -> None:
    for part in range(1, 5):
        run.progress(part / 4, f"shard {part} of 4")
        await asyncio.sleep(20 * 60 + 31)
