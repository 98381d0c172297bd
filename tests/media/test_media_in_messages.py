"""Media in messages to a run under way: the model is shown them, the rows have their digest, a crash changes nothing."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

import httpx
import pytest
from fastapi import FastAPI

from pilotage import Agent, AgentExecutionSpec, IAgentModel, ModelRequest, ModelResponse, ModelStreamEvent
from pilotage.adapters.fastapi import agent_routes
from pilotage.agent import (
    AgentSignal,
    AgentSignalEnd,
    AgentSignalKind,
    MediaPart,
    MediaSafetyLimits,
    ModelMessage,
    ModelStreamEventKind,
    RunKey,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import CallerError, MediaNotFoundError, MediaRefusedError
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import Fault, ProcessStopped, StopAfter, StopBefore
from tests.adapters.fastapi.harbour import ADA, PEOPLE
from tests.behaviour.bureau import DURABLE, Bureau
from tests.media.pictures import png
from tests.media.test_media_in_runs import LARGE, digest_of, media_of

MESSAGE = AgentSignalKind.USER_MESSAGE
PICTURE: JsonValue = to_json_value(MediaPart.of(LARGE, "image/jpeg", "cat.png"))


@Agent(
    spec=AgentExecutionSpec(
        name="talker",
        recovery=DURABLE,
        accepted_signals=[MESSAGE],
        media_limits=MediaSafetyLimits(max_parts=2),
    )
)
class Talker:
    """Talk about what you see."""


class Interrupted(IAgentModel):
    """Lets something happen during its first call, and answers with the number of pictures it was shown."""

    def __init__(
        self, happens: Callable[[], Awaitable[object]], media_types: frozenset[str] | None = None
    ) -> None:
        self._capability = ModelCapability("eye", media_types=media_types)
        self.requests: list[ModelRequest] = []
        self._happens: Callable[[], Awaitable[object]] | None = happens

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        happens, self._happens = self._happens, None
        if happens is not None:
            await happens()
        self.requests.append(request)
        return ModelResponse(f"{len(pictures(request.messages))} pictures")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=await self.complete(request))


def pictures(messages: Sequence[ModelMessage]) -> list[bytes]:
    return [b64decode(part.data or "") for message in messages for part in media_of(message)]


class Story:
    """One run that is sent messages while its model is called, over processes that share a store."""

    def __init__(self, *payloads: dict[str, JsonValue], media_types: frozenset[str] | None = None) -> None:
        self.bureau = Bureau()
        self.payloads = payloads
        self.media_types = media_types
        self.sent: list[AgentSignal] = []
        self.refused: list[CallerError] = []
        self.models: list[Interrupted] = []
        self.runs: AgentRuns | None = None
        self.commits = 0

    async def drive(self, fault: Fault | None = None) -> str | None:
        """Drive the run in a new process, and return its answer; None where the process dies."""
        model = Interrupted(self._say, self.media_types)
        self.models.append(model)
        blobs = self.bureau.store.blobs
        async with self.bureau.process(Talker, None, blobs, model=model, fault=fault) as runs:
            self.runs = runs
            with suppress(ProcessStopped):
                handle = await runs.start(Talker, "Hello.", id="story")
                if len(self.models) > 1:
                    handle = await runs.resume(handle.id)
                answer = str((await handle.result()).output)
                self.key = RunKey("default", handle.id)
                self.commits = self.bureau.journal.commits
                await runs.verify(handle.id)
                return answer
        return None

    async def _say(self) -> None:
        assert self.runs is not None
        (run,) = (await self.runs.list()).runs
        for number, payload in enumerate(self.payloads):
            try:
                self.sent.append(await self.runs.signal(run.id, MESSAGE, payload, id=f"message-{number}"))
            except CallerError as error:
                self.refused.append(error)


async def test_the_model_is_shown_the_picture_and_the_rows_have_its_digest() -> None:
    story = Story({"text": "And this?", "attachments": [PICTURE]})
    assert await story.drive() == "1 pictures"
    said = story.models[0].requests[-1].messages[-1]
    (shown,) = media_of(said)
    assert said.text == "And this?"
    assert (shown.media_type, shown.name, b64decode(shown.data or "")) == ("image/png", "cat.png", LARGE)
    (signal,) = story.sent
    assert signal.payload["attachments"] == [
        {"media_type": "image/png", "url": None, "data": None, "name": "cat.png"}
        | {"digest": digest_of(LARGE), "size": len(LARGE)}
    ]
    rows = await story.bureau.rows(story.key.run_id)
    assert len(str([(row.record, row.view, row.events) for row in rows])) < 6_000
    assert await story.bureau.store.blobs.held(story.key) == {digest_of(LARGE)}


async def test_a_crash_at_any_commit_takes_the_message_in_once_and_loses_no_picture() -> None:
    payload: dict[str, JsonValue] = {"text": "And this?", "attachments": [PICTURE]}
    whole = Story(payload)
    await whole.drive()
    assert whole.commits > 2
    for fault in [kind(number) for number in range(1, whole.commits + 1) for kind in (StopBefore, StopAfter)]:
        story = Story(payload)
        assert await story.drive(fault) is None, fault
        assert await story.drive() == "1 pictures", fault
        last = [request for model in story.models for request in model.requests][-1]
        assert pictures(last.messages) == [LARGE], fault
        assert {each.id for each in story.sent} == {"message-0"}


@pytest.mark.parametrize(
    ("attachments", "why"),
    [
        ("cat.png", "are no media"),
        (["cat.png"], "are no media"),
        ([{"name": "cat.png"}], "needs one of url, data"),
        ([{"digest": "cat"}], "64 characters"),
        ([{"media_type": "image/png", "data": "TVo="}], "is a program"),
        ([{"media_type": "image/png", "url": "http://10.0.0.1/cat.png"}], "'http'"),
        ([{"digest": digest_of(b"another")}], "another"),
        ([to_json_value(MediaPart.of(png(note=bytes([97 + n])))) for n in range(3)], "3 media parts"),
    ],
)
async def test_what_is_not_taken_is_refused_and_the_run_goes_on(attachments: JsonValue, why: str) -> None:
    story = Story({"text": "And this?", "attachments": attachments})
    assert await story.drive() == "0 pictures"
    (error,) = story.refused
    assert why in str(error) or isinstance(error, MediaNotFoundError)
    assert story.sent == []


async def test_a_picture_that_the_model_does_not_take_is_refused_and_not_its_end() -> None:
    story = Story({"text": "And this?", "attachments": [PICTURE]}, {"text": "Well?"}, media_types=frozenset())
    assert await story.drive() == "0 pictures"
    (error,) = story.refused
    assert isinstance(error, MediaRefusedError)
    assert "'eye' does not take media of type 'image/png'. It takes text only." in str(error)
    assert [each.id for each in story.sent] == ["message-1"]


async def test_more_media_than_a_request_may_have_are_refused_when_they_are_sent() -> None:
    parts = [to_json_value(MediaPart.of(png(note=bytes([97 + number])))) for number in range(3)]
    payloads: list[dict[str, JsonValue]] = [{"text": "And this?", "attachments": [part]} for part in parts]
    story = Story(*payloads)
    assert await story.drive() == "2 pictures"
    (error,) = story.refused
    assert "with this message the run has 3 media; 2 are allowed" in str(error)


async def test_a_message_with_an_upload_over_http() -> None:
    async def say() -> None:
        uploaded = (await client.post("/api/media", params={"name": "cat.png"}, content=LARGE)).json()
        (run,) = (await client.get("/api/runs")).json()["runs"]
        body = {"kind": "user_message", "payload": {"text": "And this?", "attachments": [uploaded]}}
        answers.append(await client.post(f"/api/runs/{run['id']}/signals", json=body))
        body["payload"] = {"text": "And this?", "attachments": [{"digest": digest_of(b"unknown")}]}
        answers.append(await client.post(f"/api/runs/{run['id']}/signals", json=body))

    bureau, model, answers = Bureau(), Interrupted(say), list[httpx.Response]()
    async with bureau.process(Talker, None, bureau.store.blobs, model=model) as runs:
        api = FastAPI()
        api.include_router(agent_routes(runs.services.app, principal=PEOPLE), prefix="/api")
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=ADA) as client:
            started = await client.post("/api/runs", json={"agent": "talker", "input": "Hello."})
            await client.get(f"/api/runs/{started.json()['id']}/events")
    assert [each.status_code for each in answers] == [202, 404], [each.text for each in answers]
    assert pictures(model.requests[-1].messages) == [LARGE]


async def test_a_message_that_comes_too_late_leaves_its_end_to_the_sender() -> None:
    story = Story()
    await story.drive()
    async with story.bureau.process(Talker, None, story.bureau.store.blobs, model=story.models[0]) as runs:
        with pytest.raises(CallerError, match="has ended|COMPLETED|completed"):
            await runs.signal(story.key.run_id, MESSAGE, {"text": "And this?", "attachments": [PICTURE]})
    assert AgentSignalEnd.TOO_LATE not in {each.end for each in story.sent}
