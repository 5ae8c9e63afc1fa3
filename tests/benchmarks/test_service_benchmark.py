"""The benchmark of the service: a real process answers a few users, and every figure is there."""

from benchmarks.service import Load, measure

ROUTES = {"message", "stream", "search", "documents", "conversations"}


def test_users_are_answered_without_errors_while_an_index_job_goes_on() -> None:
    load = Load(users=3, seconds=600.0, think=0.0, index_after=0.0, requests=12)
    figures = measure(load, tenants=0, chunks=60)
    assert figures["errors"] == {}
    assert figures["requests"] == 36
    [by_route] = figures["milliseconds"].values()
    assert {route.partition(",")[0] for route in by_route} == ROUTES
    assert sum(each["requests"] for each in by_route.values()) == 36
    assert all(0 < each["p50"] <= each["p95"] <= each["p99"] for each in by_route.values())
    first, *_, last = figures["states"]
    assert last["cpu_seconds"] > first["cpu_seconds"]
    assert min(first["rss_mb"], first["descriptors"], figures["index_seconds"]) > 0
