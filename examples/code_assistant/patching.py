"""What a patch makes of a text. Pure.

A patch says: where the text says `old`, it shall say `new`. Said twice it changes nothing the second time, so a call
that was cut off may be made again.
"""

from __future__ import annotations


class PatchError(ValueError):
    """A patch does not say what it is about."""


def patched(text: str, old: str, new: str) -> str:
    """The text with `new` in the place of `old`; the text itself where that is so already.

    Raises:
        PatchError: `old` is empty, is not there, or stands in several places.
    """
    if not old:
        raise PatchError("say which text is to be replaced")
    places = _open_places(text, old, new)
    if not places and new in text:
        return text
    if not places:
        raise PatchError("the text to be replaced is not there")
    (place, *others) = places
    result = text[:place] + new + text[place + len(old) :]
    if others or _open_places(result, old, new):
        raise PatchError("that is said in several places: give more of the text around the one you mean")
    return result


def _open_places(text: str, old: str, new: str) -> list[int]:
    """Where the text still says `old`."""
    return [place for place in _places(text, old) if not _is_part_of(text, place, old, new)]


def _places(text: str, part: str) -> list[int]:
    found: list[int] = []
    place = text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + 1)
    return found


def _is_part_of(text: str, place: int, old: str, new: str) -> bool:
    """Whether what stands at a place is there because the patch was made already."""
    inner = new.find(old)
    while inner >= 0:
        start = place - inner
        if start >= 0 and text.startswith(new, start):
            return True
        inner = new.find(old, inner + 1)
    return False
