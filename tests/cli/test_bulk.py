"""Bulk actions on jobs: the selection, the summary, and whose pause ends."""

import json

from tests.cli.live import Live


def import_jobs(node: Live, count: int, tag: str, *more: str) -> None:
    target = {"type": "http", "url": node.receiver, "method": "GET"}
    jobs = [
        {"name": f"{tag}-{n:02}", "schedule": "@yearly", "target": target, "retry": "none", "tags": [tag]}
        for n in range(count)
    ]
    node.ok("import", "jobs", "-", *more, "-q", given="".join(f"{json.dumps(job)}\n" for job in jobs))


def applied(node: Live, name: str, more: str = "") -> None:
    text = f'[[job]]\nname = "{name}"\nschedule = "@daily"\ntarget = {{ type = "task", name = "t" }}\n{more}\n'
    node.ok("apply", "-f", "-", "--source", name, given=text)


def test_resuming_all_resumes_operator_pauses_but_not_jobs_their_definition_disables(node: Live) -> None:
    for name, more in (("off-by-file", "enabled = false"), ("on-by-file", "")):
        applied(node, name, f'{more}\ntags = ["mixed"]')
    node.create("off-at-first", "--tag", "mixed", "--paused")
    node.ok("job", "pause", "on-by-file")
    done = node.run("job", "resume", "--tag", "mixed", "--yes", "-o", "name")

    assert (done.exit_code, done.stdout) == (0, "on-by-file\n")
    assert (
        "note: 2 jobs are off by definition and left so (off-at-first, off-by-file); `hourbell job resume"
        in done.stderr
    )
    assert "1 job tagged mixed: on-by-file" in done.stderr


def test_resuming_by_name_a_job_that_its_file_disables_warns(node: Live) -> None:
    applied(node, "named", "enabled = false")
    done = node.run("job", "resume", "named", "-o", "name")

    assert (done.exit_code, done.stdout) == (0, "named\n")
    assert "named belongs to file:named; if that says enabled = false, the next apply switches it off" in done.stderr
    node.ok("job", "pause", "named")
    assert "note" not in node.run("job", "resume", "named").stderr


def test_one_refusal_names_its_job_and_the_others_are_counted(node: Live) -> None:
    applied(node, "theirs")
    node.create("mine")
    done = node.run("job", "delete", "theirs", "mine", "nobody")

    assert done.exit_code == 5
    assert "error: theirs: the job belongs to file:theirs" in done.stderr.lower()
    assert "--take-over" in done.stderr
    assert "take_over" not in done.stderr
    assert done.stderr.splitlines()[0] == "deleted mine"
    assert done.stderr.splitlines()[-1] == "2 of 3 were not deleted"


def test_many_equal_refusals_are_summed_up(node: Live) -> None:
    import_jobs(node, 12, "file", "--managed-by", "file", "--source", "shop")
    import_jobs(node, 1, "api")
    done = node.run("job", "delete", *(f"file-{n:02}" for n in range(12)), "api-00")

    assert done.stderr.count("error: ") == 1
    assert "error: 12 jobs (file-00, file-01, file-02, …): " in done.stderr
    assert done.stderr.splitlines()[-1] == "12 of 13 were not deleted"


def test_a_long_result_is_a_count_for_people_and_names_for_programs(node: Live) -> None:
    import_jobs(node, 21, "long")
    paused = node.run("job", "pause", "--tag", "long", "--yes")

    assert (paused.exit_code, paused.stdout, paused.stderr.splitlines()[-1]) == (0, "", "paused 21 jobs")
    assert len(node.ok("job", "resume", "--tag", "long", "--yes", "-o", "name").split()) == 21
    assert len(node.json("job", "trigger", "--tag", "long", "--yes")["items"]) == 21
    waited = node.run("job", "trigger", "--tag", "long", "--yes", "--wait")
    assert (waited.exit_code, waited.stdout, waited.stderr.splitlines()[-1]) == (0, "", "21 of 21 runs succeeded")
    assert sum(line.startswith("run ") for line in waited.stderr.splitlines()) == 20
    gone = node.run("job", "delete", "--tag", "long", "--yes")
    assert (gone.exit_code, gone.stderr.splitlines()[-1]) == (0, "deleted 21 jobs")
