"""Outages are recorded once, by the first node that finds them, and change nothing else."""

from datetime import timedelta
from uuid import UUID

from hourbell.core.run.outages import Outage, OutageOf, merge_outages, outage_of_nodes
from tests.engine.nodes import DAY, HOUR, LEASE, MINUTE, SECOND, Cluster, Row, virtually
from tests.engine.virtual import START

NODE, OTHER = UUID(int=1), UUID(int=2)


async def recorded(cluster: Cluster) -> list[Row]:
    return await cluster.rows("outages")


def test_the_first_node_after_a_clean_stop_records_the_outage() -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        first = await cluster.start()
        await cluster.advance(HOUR)
        await first.stop()
        stopped_at = cluster.now()
        await cluster.advance(DAY)
        second = await cluster.start()

        [outage] = await recorded(cluster)
        assert (outage["of"], outage["found_by"]) == ("nodes", second.engine.node_id)
        assert timedelta(0) <= stopped_at - outage["started_at"] <= LEASE / 4 + SECOND
        assert abs(cluster.now() - outage["ended_at"]) < SECOND

    test()


def test_the_first_node_after_a_crash_records_the_outage() -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        nodes = await cluster.start_many(3)
        await cluster.advance(HOUR)
        for node in nodes:
            node.crash()
        await cluster.advance(3 * DAY)
        await cluster.start_many(3)
        await cluster.advance(HOUR)

        [outage] = await recorded(cluster)
        assert outage["of"] == "nodes"
        assert 3 * DAY - MINUTE < outage["ended_at"] - outage["started_at"] < 3 * DAY + MINUTE

    test()


def test_a_quick_restart_and_a_rolling_one_are_no_outage() -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        first = await cluster.start()
        await cluster.advance(HOUR)
        await first.stop()
        await cluster.advance(30 * SECOND)
        second = await cluster.start()
        await cluster.advance(HOUR)
        third = await cluster.start()
        second.crash()
        await cluster.advance(HOUR)
        await third.stop()

        assert await recorded(cluster) == []

    test()


def test_the_very_first_node_finds_no_outage() -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        await cluster.add_job()
        await cluster.advance(DAY)
        await cluster.start()

        assert await recorded(cluster) == []

    test()


def test_an_outage_of_the_database_is_one_record_of_all_nodes() -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        await cluster.add_job()
        await cluster.start_many(3)
        await cluster.advance_to(START + HOUR)
        with cluster.outage():
            await cluster.advance(5 * MINUTE)
        await cluster.advance(MINUTE)

        [outage] = [each for each in await recorded(cluster) if each["of"] == "database"]
        assert START + HOUR - SECOND <= outage["started_at"] <= START + HOUR + 5 * SECOND
        assert START + HOUR + 5 * MINUTE <= outage["ended_at"] <= START + HOUR + 5 * MINUTE + 10 * SECOND
        assert all(row["state"] == "succeeded" for row in await cluster.runs())

    test()


def test_a_short_interruption_of_the_database_is_not_recorded() -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        await cluster.start_many(2)
        await cluster.advance_to(START + HOUR)
        with cluster.outage():
            await cluster.advance(5 * SECOND)
        await cluster.advance(MINUTE)

        assert await recorded(cluster) == []

    test()


def test_a_node_that_is_cut_off_alone_records_what_it_saw() -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        _, cut_off = await cluster.start_many(2)
        await cluster.advance_to(START + HOUR)
        cut_off.is_cut_off = True
        await cluster.advance(MINUTE)
        cut_off.is_cut_off = False
        await cluster.advance(MINUTE)

        [outage] = await recorded(cluster)
        assert (outage["of"], outage["found_by"]) == ("database", cut_off.engine.node_id)

    test()


def test_a_node_counts_as_live_for_its_lease() -> None:
    assert outage_of_nodes(START, START + LEASE, LEASE, NODE) is None
    assert outage_of_nodes(None, START, LEASE, NODE) is None
    assert outage_of_nodes(START + DAY, START, LEASE, NODE) is None  # the clock went back
    later = START + LEASE + SECOND
    assert outage_of_nodes(START, later, LEASE, NODE) == Outage(OutageOf.NODES, START, later, NODE)


def test_outages_that_overlap_become_one_of_the_node_that_found_the_earliest() -> None:
    late = Outage(OutageOf.DATABASE, START + MINUTE, START + HOUR, OTHER)
    early = Outage(OutageOf.DATABASE, START, START + 2 * MINUTE, NODE)

    assert merge_outages(late, [early]) == Outage(OutageOf.DATABASE, START, START + HOUR, NODE)
    assert merge_outages(early, []) == early
