"""Messages: roles, parts, tool calls; limits of media, and the media that a model takes."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from decimal import Decimal

import pytest

from pilotage.agent import MediaSafetyLimits, ModelCapability
from pilotage.agent.media import check_taken_by, is_one_of, media_after, media_in, size_of
from pilotage.agent.messages import MediaPart, ModelMessage, ModelMessageRole, ModelToolCall, TextPart
from pilotage.errors import AgentDefinitionError, MediaRefusedError, MediaTooLargeError, MediaTypeRefusedError
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor


@dataclass(frozen=True)
class Found:
    title: str
    price: Decimal


CALL = ModelToolCall("pay", {"to": "DE-1"}, "c1")


@pytest.mark.parametrize(
    ("message", "role", "text"),
    [
        (ModelMessage.system("Be brief."), "system", "Be brief."),
        (ModelMessage.user("Hello"), "user", "Hello"),
        (ModelMessage.assistant("Hi"), "assistant", "Hi"),
        (ModelMessage.tool("c1", "done"), "tool", "done"),
        (ModelMessage.tool("c1", {"b": 1, "a": Decimal("1.50")}), "tool", '{"a":"1.50","b":1}'),
        (ModelMessage.evidence([Found("x", Decimal(2))]), "evidence", '[{"price":"2","title":"x"}]'),
        (ModelMessage.evidence("as it is"), "evidence", "as it is"),
    ],
)
def test_the_class_methods_name_the_roles(message: ModelMessage, role: str, text: str) -> None:
    assert (message.role, message.text) == (role, text)
    assert ModelMessageRole(role) is message.role


def test_parts_become_a_tuple_and_their_texts_are_joined() -> None:
    image = MediaPart("image/png", url="https://example.org/x.png")
    message = ModelMessage.user([TextPart("What is"), image, TextPart("this?")])
    assert message.content == (TextPart("What is"), image, TextPart("this?"))
    assert message.text == "What is\nthis?"


def test_an_assistant_carries_its_calls_and_a_tool_the_id_it_answers() -> None:
    assert ModelMessage.assistant("", [CALL]).tool_calls == (CALL,)
    assert ModelMessage.tool("c1", 1).tool_call_id == "c1"
    assert ModelMessage.user("x", source="mail").metadata == {"source": "mail"}


def test_media_comes_by_address_or_by_its_bytes() -> None:
    assert MediaPart("image/png", data="aGk=").data == "aGk="
    with pytest.raises(AgentDefinitionError):
        MediaPart("image/png", url="https://example.org", data="aGk=")


def test_sensitive_arguments_of_a_call_are_guarded() -> None:
    account = SensitiveFieldDescriptor(("to",), SensitiveField(PII.ACCOUNT_ID))
    assert CALL.guarded([account]) == ModelToolCall("pay", {"to": "[REDACTED]"}, "c1")
    assert CALL.arguments == {"to": "DE-1"}
    everything = SensitiveFieldDescriptor((), SensitiveField(PII.NAME))
    assert CALL.guarded([everything]).arguments == {}


def data(size: int, media_type: str = "image/png") -> MediaPart:
    return MediaPart(media_type, data=base64.b64encode(bytes(size)).decode())


def at(url: str, media_type: str = "image/png") -> MediaPart:
    return MediaPart(media_type, url=url)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 1000])
def test_a_size_is_that_of_the_decoded_data(size: int) -> None:
    assert size_of(data(size)) == size
    assert size_of(at("https://example.org/a.png")) == 0


@pytest.mark.parametrize(
    ("media_type", "types", "is_one"),
    [
        ("image/png", {"image/png"}, True),
        ("IMAGE/PNG; a=b", {"image/png"}, True),
        ("image/png", {"image/*"}, True),
        ("image/png", {"*/*"}, True),
        ("image/png", {"image/jpeg", "audio/*"}, False),
        ("image/*", {"image/png"}, False),
        ("image/*", {"image/*"}, True),
        ("image", {"image/*"}, True),
        ("text/html", set[str](), False),
    ],
)
def test_a_type_is_one_of_others_by_name_or_by_kind(media_type: str, types: set[str], is_one: bool) -> None:
    assert is_one_of(media_type, frozenset(types)) is is_one


FEW = MediaSafetyLimits(
    max_parts=2,
    max_part_bytes=10,
    max_total_bytes=15,
    media_types=frozenset({"Image/PNG", "audio/*"}),
    url_schemes=frozenset({"http", "https"}),
)


@pytest.mark.parametrize(
    ("parts", "refused"),
    [
        ([], None),
        ([data(10)], None),
        ([data(10), data(5, "audio/wav")], None),
        ([data(1)] * 3, (MediaTooLargeError, "there are 3 media parts; 2 are allowed")),
        (
            [data(1), data(11)],
            (MediaTooLargeError, r"media part 2 \('image/png'\) has 11 bytes; 10 are allowed"),
        ),
        ([data(8), data(8)], (MediaTooLargeError, "have 16 bytes together; 15 are allowed")),
        (
            [data(1, "image/svg+xml")],
            (MediaTypeRefusedError, "type 'image/svg[+]xml'; allowed are 'audio/[*]', 'image/png'"),
        ),
        ([at("https://example.org/a.png")], None),
        ([at("HTTP://example.org/a.png")], None),
        (
            [at("file:///etc/passwd")],
            (MediaTypeRefusedError, "address of 'file'; allowed are 'http', 'https'"),
        ),
        ([at("data:image/png;base64,AAAA")], (MediaTypeRefusedError, "address of 'data'")),
        ([at("//example.org/a.png")], (MediaTypeRefusedError, "at an address of")),
    ],
)
def test_media_are_within_the_limits(
    parts: list[MediaPart], refused: tuple[type[MediaRefusedError], str] | None
) -> None:
    if refused is None:
        FEW.check(parts)
        return
    with pytest.raises(refused[0], match=refused[1]):
        FEW.check(parts)


@pytest.mark.parametrize("limits", [{"max_parts": 0}, {"max_part_bytes": -1}, {"max_total_bytes": 0}])
def test_limits_are_positive(limits: dict[str, int]) -> None:
    with pytest.raises(AgentDefinitionError, match="Use a positive number"):
        MediaSafetyLimits(**limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("types", [{"png"}, {"/png"}, {"image/"}, {""}])
def test_types_are_mime_types(types: set[str]) -> None:
    with pytest.raises(AgentDefinitionError, match="MediaSafetyLimits.media_types has"):
        MediaSafetyLimits(media_types=frozenset(types))
    with pytest.raises(AgentDefinitionError, match="ModelCapability.media_types has"):
        ModelCapability("m", media_types=frozenset(types))


def test_a_model_takes_what_it_declares_and_anything_if_it_declares_nothing() -> None:
    check_taken_by("m", None, [data(1, "x/y")])
    check_taken_by("m", frozenset({"image/*"}), [data(1)])
    check_taken_by("m", frozenset(), [])
    with pytest.raises(
        MediaTypeRefusedError, match="'m' does not take media of type 'x/y'. It takes 'image/[*]'"
    ):
        check_taken_by("m", frozenset({"image/*"}), [data(1), data(1, "x/y")])
    with pytest.raises(MediaTypeRefusedError, match="It takes text only"):
        check_taken_by("m", frozenset(), [data(1)])


def test_the_media_of_messages_are_found_in_order() -> None:
    first, second = data(1), at("https://example.org/a.png")
    messages = [
        ModelMessage.system("Look."),
        ModelMessage.user([TextPart("this"), first]),
        ModelMessage.assistant("Hm."),
        ModelMessage.user([second]),
    ]
    assert list(media_in(messages)) == [first, second]


def test_the_media_of_a_transcript_that_goes_on_are_those_of_its_new_messages() -> None:
    picture = data(1)
    known = (ModelMessage.system("Look."), ModelMessage.user("What?"), ModelMessage.assistant("Hm."))
    assert media_after((), known) == []
    assert media_after(known, (*known, ModelMessage.user([picture]))) == [picture]
    assert media_after(known, (*known, ModelMessage.user("Go on."))) == []


def test_media_that_came_into_the_part_before_are_found() -> None:
    picture = data(1)
    known = (ModelMessage.system("Look."), ModelMessage.user("What?"), ModelMessage.assistant("Hm."))
    changed = (known[0], ModelMessage.user([picture]), known[2])
    assert media_after(known, changed) == [picture]
    assert media_after(known, list(changed)) == [picture]
    assert media_after(known, (ModelMessage.user([picture]),)) == [picture]
    assert media_after(known, (*changed[:2], ModelMessage.assistant("Hm."), ModelMessage.user("Go on."))) == [
        picture
    ]
