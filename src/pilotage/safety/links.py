"""Links and images in Markdown and HTML, made plain text unless they lead to a named host. Pure.

A page that renders an answer loads its images, and an address can carry data to a server. So an address passes only
if it is an absolute http(s) address of a named host, or a fragment of the same page; everything else is refused:
other schemes, relative and protocol-relative addresses, names before an `@`, escapes and entities in the host.
The text stays readable; it is no link any more.
"""

from __future__ import annotations

import re
from collections.abc import Collection

# `](address` of a link or an image, and `]: address` of a definition that links refer to by name. Only the mark is
# taken, because an address may hold another one.
_TARGET = re.compile(r"\](?P<mark>[(:])(?=\s*(?P<address><[^<>\n]*>|[^\s()\[\]<>]*)(?P<ends>[\s)]|$)?)")
_ENTITY = {"(": "&#40;", ":": "&#58;"}
_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
# Without attributes these load nothing and lead nowhere.
_PLAIN_TAG = re.compile(
    r"</?(?:b|i|u|s|p|em|strong|code|pre|kbd|br|hr|ul|ol|li|sub|sup|del|ins|span|div|blockquote|details|summary|"
    r"table|thead|tbody|tr|th|td|h[1-6])[ \t]*/?>",
    re.IGNORECASE,
)
_AUTOLINK = re.compile(r"<(?P<address>[a-zA-Z][a-zA-Z0-9+.\-]*:[^\s<>]*)>")
_HOST = r"[^\s/?#<>\"'`()\[\]]*"
# A scheme of any length would be looked at again from each of its letters. A host may be the scheme of another address.
_BARE = re.compile(rf"(?P<scheme>[a-z][a-z0-9+.\-]{{0,30}})://(?=(?P<host>{_HOST}))", re.IGNORECASE)
_BARE_HOST = re.compile(rf"(?<=\(:\)//){_HOST}")
_BARE_NAME = re.compile(rf"\bwww\.{_HOST}", re.IGNORECASE)
_END = ".,;:!*_"
_ADDRESS = re.compile(r"https?://(?P<host>[^/?#]*)[^\\\x00-\x20]*", re.IGNORECASE)
_FRAGMENT = re.compile(r"#[\w\-]*")


def neutralize_links(text: str, hosts: Collection[str] = ()) -> str:
    """Return a text in which only links and images of the hosts work; all others are plain text.

    `hosts` are names as they stand in an address, with the port where there is one: `docs.example.org`,
    `localhost:8000`. Links, images, definitions, autolinks and bare addresses are looked at, and every HTML tag with
    attributes. Text without any of them comes back as it is.
    """
    allowed = frozenset(host.casefold() for host in hosts)
    text = _TAG.sub(lambda found: _without_tag(found, allowed), text)
    text = _BARE.sub(lambda found: _without_scheme(found, allowed), text)
    text = _BARE_HOST.sub(lambda found: _without_dots(found[0]), text)
    text = _BARE_NAME.sub(lambda found: _without_name(found, allowed), text)
    # Last, because the address of a target may hold another one that was changed.
    return _TARGET.sub(lambda found: _without_target(found, allowed), text)


def _without_target(found: re.Match[str], allowed: Collection[str]) -> str:
    address = found["address"]
    if address.startswith("<") and address.endswith(">"):
        address = address[1:-1]
    is_allowed = found["ends"] is not None and _is_allowed(address, allowed)
    return found[0] if is_allowed else f"]{_ENTITY[found['mark']]}"


def _without_tag(found: re.Match[str], allowed: Collection[str]) -> str:
    """Return the bracket that opens a tag, escaped unless the tag cannot load or lead to anything."""
    text, start = found.string, found.start()
    autolink = _AUTOLINK.match(text, start)
    if autolink is not None and _is_allowed(autolink["address"], allowed):
        return "<"
    return "<" if _PLAIN_TAG.match(text, start) else "&lt;"


def _without_scheme(found: re.Match[str], allowed: Collection[str]) -> str:
    is_web = found["scheme"].casefold() in ("http", "https")
    is_allowed = is_web and found["host"].casefold().rstrip(_END) in allowed
    return found[0] if is_allowed else f"{found['scheme']}(:)//"


def _without_name(found: re.Match[str], allowed: Collection[str]) -> str:
    return found[0] if found[0].casefold().rstrip(_END) in allowed else _without_dots(found[0])


def _without_dots(host: str) -> str:
    return host.replace(".", "(.)")


def _is_allowed(address: str, allowed: Collection[str]) -> bool:
    if _FRAGMENT.fullmatch(address):
        return True
    found = _ADDRESS.fullmatch(address)
    return found is not None and found["host"].casefold() in allowed
