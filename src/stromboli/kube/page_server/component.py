"""The page beside the scheduler: it watches, refreshes its document and sends the changes.

A refresh takes a quarter of a second on a thousand nodes with two thousand jobs, in a thread. While somebody looks, one
follows every change, but no sooner than a second after the last, and the thread rests at least five times as long as it
works. While nobody looks there are only samples for the pictures over time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from typing import Final

from stromboli.api import KObject
from stromboli.api.upstream import translated
from stromboli.insight import State, document, explain
from stromboli.kube.client import Client, Failure
from stromboli.kube.runtime import ConfigurationFile, ErrorReporter, Log, ProcessMetrics
from stromboli.kube.runtime.object_containment import MOST_ERRORS, ObjectContainment
from stromboli.page import Document, encode_json
from stromboli.scheduling.cycle import Scheduler

from .document_changes import changes, encode_event
from .http_server import ActionRequest, PageHttpServer, PageOptions
from .job_actions import ACTIONS, act_on_job
from .live_document import LiveDocument
from .outlook import MOST_OBJECTS, Outlook, WhatIf, look_ahead
from .trials import Trials
from .watched_objects import WatchedObjects

_log = Log("page")

_SECONDS_WATCHED: Final = 1.0  # between two refreshes while somebody looks
_SECONDS_ALONE: Final = 5.0
_REST_WATCHED: Final = 5.0  # times the length of the last refresh
_REST_ALONE: Final = 20.0
_SECONDS_AHEAD: Final = 5.0  # between two forecasts while somebody looks
_REST_AHEAD: Final = 10.0  # times the length of the last one
_LONGEST: Final = 5.0  # seconds without a refresh while somebody looks and nothing happens


class PageComponent:
    name = "page"

    def __init__(
        self,
        client: Client,
        options: PageOptions,
        *,
        title: str,
        scheduler_name: str,
        configuration: ConfigurationFile[Scheduler],
        announce: Callable[[str], None] = lambda url: None,
        what_if: WhatIf | None = None,
        metrics: ProcessMetrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`announce` gets the address, without the token, once the page is served. `what_if` tries what would start a
        job; without it there are no forecasts."""
        self._client = client
        self._options = options
        self._configuration = configuration
        self._announce = announce
        self._scheduler_name = scheduler_name
        self._clock = clock
        errors = ErrorReporter(self.name, metrics)
        self._containment = ObjectContainment(errors, clock)
        self._objects = WatchedObjects(client, errors.contain)
        self._live = LiveDocument(title, scheduler_name)
        self._document: Document | None = None
        self._what_if = what_if
        self._outlook = Outlook()
        self._server = PageHttpServer(options, self._first_event, self._why, self._try, self._act)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="page")
        self._forecasts = ThreadPoolExecutor(1, thread_name_prefix="page-forecasts")
        self._trials = Trials()
        self._crashed = False

    @property
    def url(self) -> str:
        """ "" until it is served."""
        return self._server.url

    def not_ready_reason(self) -> str | None:
        return None if self._server.url else "the page is not served yet"

    def unhealthy_reason(self) -> str | None:
        return None  # whatever happens here, the scheduler must go on

    async def run(self, stop: asyncio.Event) -> None:
        await self._server.start()
        self._announce(self._server.url)
        background = [
            asyncio.create_task(work)
            for work in (
                *self._objects.watches(),
                self._configuration.run(lambda scheduler: None, lambda why: None),
                self._refresh_forever(),
                self._look_ahead_forever(),
            )
        ]
        try:
            await stop.wait()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._server.stop()
            self._thread.shutdown(wait=True)
            self._forecasts.shutdown(wait=False, cancel_futures=True)
            self._trials.close()

    # -- refreshing ---------------------------------------------------------------------------------------------------

    async def _refresh_forever(self) -> None:
        while self._objects.not_synced() is not None:
            await asyncio.sleep(0.1)
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            await self._refresh()
            worked = clock() - started
            await self._rest(started, worked)

    async def _rest(self, started: float, worked: float) -> None:
        """Until it is time again. Who looks decides how soon, and a browser may come meanwhile."""
        clock = asyncio.get_running_loop().time
        while True:
            watched = self._server.browsers > 0
            least = max(_SECONDS_WATCHED, _REST_WATCHED * worked) if watched else _SECONDS_ALONE
            if not watched:
                least = max(least, _REST_ALONE * worked)
            passed = clock() - started
            if passed >= least and (not watched or self._objects.changed.is_set() or passed >= _LONGEST):
                return
            await asyncio.sleep(0.1 if watched else 0.5)

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            after = await self._refreshed()
        except Exception:
            if not self._crashed:
                _log.exception("the page could not be refreshed")
            self._crashed = True
            return
        self._crashed = False
        content, before = b": refreshed\n\n", self._document
        if before is not None and self._server.browsers:
            sample = None if self._live.samples.was_thinned else self._live.samples.tail()
            content = await loop.run_in_executor(
                self._thread, lambda: encode_event("change", changes(before, after, sample))
            )
        # At once after the other: a browser that comes in between would miss a change, or get it twice.
        self._document = after
        self._server.publish(content)

    async def _refreshed(self) -> Document:
        """The document of now, without the objects that an error happened on."""
        happened, evictions = self._objects.drain()
        scheduler, now, outlook = self._configuration.current, self._clock(), self._outlook
        start_over = self._containment.refresh()
        for attempt in range(MOST_ERRORS):
            jobs = [job for job in self._objects.jobs() if not self._containment.hides(job)]
            happened = [change for change in happened if not self._containment.hides(change.object)]
            known = self._visible() if start_over else None
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    self._thread,
                    partial(self._live.refresh, happened, evictions, jobs, scheduler, now, outlook, known=known),
                )
            except Exception as error:
                if self._containment.charge(error) is None or attempt + 1 == MOST_ERRORS:
                    raise
                start_over = True
        raise AssertionError("the last attempt returns or raises")

    def _visible(self) -> list[KObject]:
        return [obj for obj in self._objects.everything() if not self._containment.hides(obj)]

    # -- looking ahead ------------------------------------------------------------------------------------------------

    async def _look_ahead_forever(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_SECONDS_WATCHED)
            if self._document is None or not self._server.browsers:
                continue
            started = clock()
            try:
                await self._look_ahead()
            except Exception:
                _log.exception("the page could not look ahead")
            worked = clock() - started
            await asyncio.sleep(max(_SECONDS_AHEAD, _REST_AHEAD * worked))

    async def _look_ahead(self) -> None:
        state, scheduler, what_if = self._state(), self._new_scheduler(), self._what_if
        loop = asyncio.get_running_loop()
        self._outlook = await loop.run_in_executor(self._forecasts, lambda: look_ahead(state, scheduler, what_if))
        self._objects.changed.set()

    def _state(self) -> State:
        return State([translated(obj) for obj in self._visible()], self._clock(), self._scheduler_name)

    def _new_scheduler(self) -> Scheduler:
        """With the configuration of the real one, and a memory of its own."""
        current = self._configuration.current
        return Scheduler(current.configuration, current.registry)

    async def _try(self, job: str) -> AsyncGenerator[bytes | None, None]:
        """What would start a job, step by step; or why nothing is tried. None: there is no such job."""
        state, scheduler, what_if = self._state(), self._new_scheduler(), self._what_if
        if what_if is None or len(state.objects) > MOST_OBJECTS:
            yield encode_json({"message": f"It cannot be tried here. Try: stromboli why {job}"})
            return
        async with aclosing(
            self._trials.answers(lambda tell: what_if.prospects(state, scheduler, job, tell))
        ) as answers:
            async for answer in answers:
                yield None if answer is None else encode_json(answer)

    def _first_event(self) -> bytes | None:
        if self._document is None:
            return None
        return encode_event("document", {"document": self._document, "canWrite": self._options.may_write})

    async def _why(self, job: str) -> bytes | None:
        """Everything about why a job waits. One cycle runs on a copy for it, with a scheduler of its own."""
        state, scheduler = self._state(), self._new_scheduler()

        def explained() -> bytes | None:
            found = explain(state, scheduler, job)
            return None if found is None else encode_json(document(found))

        return await asyncio.get_running_loop().run_in_executor(self._thread, explained)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _act(self, wanted: ActionRequest) -> tuple[HTTPStatus, str]:
        if wanted.action not in ACTIONS:
            return HTTPStatus.BAD_REQUEST, f"There is no action {wanted.action}; there are {', '.join(ACTIONS)}."
        job = self._objects.job(wanted.job)
        if job is None:
            return HTTPStatus.NOT_FOUND, f"There is no Job {wanted.job}."
        try:
            return HTTPStatus.CREATED, await act_on_job(self._client, job, wanted.action)
        except Failure as failure:
            return HTTPStatus.BAD_GATEWAY, f"The API server: {failure.message}"
