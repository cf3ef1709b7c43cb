"""Who is answered, by each listener: holders of the token, and no other site's page."""

from __future__ import annotations

from pathlib import Path

import pytest

from listeners.servers import NAMES, TOKEN, listening, play
from stromboli.errors import UserError
from stromboli.listeners import Access, read_token

pytestmark = pytest.mark.parametrize("name", NAMES)


def test_everything_but_health_needs_the_token(name: str) -> None:
    async def story() -> None:
        async with listening(name) as listener:
            assert await listener.status(listener.request()) == 200
            assert await listener.status(listener.request(token="")) == 401
            assert await listener.status(listener.request(token=TOKEN[:-1])) == 401
            assert await listener.status(listener.request(f"Authorization: Basic {TOKEN}", token="")) == 401
            assert await listener.is_healthy()

    play(story)


@pytest.mark.parametrize("value", ["Bearer t\u00f6ken", "\u00ff\u00fe", "Bearer " + "\u00e9" * 500])
def test_a_token_that_is_not_ascii_is_wrong(name: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with listening(name) as listener:
            assert await listener.status(listener.request(f"Authorization: {value}", token="")) == 401

    play(story)
    assert not any(record.exc_info for record in caplog.records)


def test_requests_that_a_browser_makes_for_another_site_are_refused(name: str) -> None:
    """Under a name of that site, or across sites. The token makes no difference."""
    foreign = [
        ["Host: evil.example"], ["Host: 127.0.0.1.evil.example:8080"], ["Host: a.svc.evil.example"], ["Host: "],
        ["Host: 127.0.0.1", "Host: evil.example"], ["Origin: http://evil.example"], ["Origin: null"],
        ["Origin: http://127.0.0.1:1"], ["Sec-Fetch-Site: cross-site"], ["Sec-Fetch-Site: same-site"],
    ]  # fmt: skip

    async def story() -> None:
        async with listening(name) as listener:
            for headers in foreign:
                assert await listener.status(listener.request(*headers)) in (400, 403), headers
            own = f"127.0.0.1:{listener.port}"
            for headers in (
                [f"Origin: http://{own}"], [f"Host: localhost:{listener.port}"], ["Host: [::1]:80"],
                ["Host: stromboli-metrics.stromboli-system.svc:8080"], ["Sec-Fetch-Site: same-origin"],
            ):  # fmt: skip
                assert await listener.status(listener.request(*headers)) == 200, headers

    play(story)


def test_a_second_header_that_says_who_asks_is_refused(name: str) -> None:
    """In both orders: somebody in front of us may believe the first of the two, or the last."""

    async def story() -> None:
        async with listening(name) as listener:
            own = f"127.0.0.1:{listener.port}"
            for one, other in (
                (f"Origin: http://{own}", "Origin: http://evil.example"),
                (f"Origin: http://{own}", f"Origin: http://{own}"),
                (f"Host: {own}", "Host: evil.example"),
                (f"Host: {own}", f"Host: {own}"),
                ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"),
            ):
                for headers in ((one, other), (other, one)):
                    assert await listener.status(listener.request(*headers)) in (400, 403), headers

    play(story)


@pytest.mark.parametrize("header", ["Accept: */*;as=Table;v=\u00ff", "User-Agent: \u00ff", "Content-Type: \u00fe/x"])
def test_a_header_that_is_no_text_is_no_error_of_ours(name: str, header: str) -> None:
    async def story() -> None:
        async with listening(name) as listener:
            assert await listener.status(listener.request(header)) < 500
            sent = listener.request(header, "Content-Length: 2", method="POST", body="{}")
            assert await listener.status(sent) < 500

    play(story)


def test_an_expectation_that_is_no_text_is_refused(name: str) -> None:
    async def story() -> None:
        async with listening(name) as listener:
            assert 200 <= await listener.status(listener.request("Expect: 100-con\u00d2inue")) < 500

    play(story)


def test_names_that_a_listener_was_given_are_its_own(name: str) -> None:
    access = Access({}, ("Page.Example.",))
    assert access.foreign(["page.example"], ["https://page.example"], []) is None
    assert access.foreign(["other.example"], [], []) is not None
    assert access.holder("Bearer ") is None


def test_a_token_is_read_from_a_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    assert read_token(path) == TOKEN
    for wrong in ("short", "ü" * 20, "two words of some length"):
        path.write_text(wrong)
        with pytest.raises(UserError, match="at least 16 characters"):
            read_token(path)
    with pytest.raises(UserError, match="No such file"):
        read_token(tmp_path / "missing")
