"""The page of the OpenAPI description, with everything it needs: it loads nothing from elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pilotage.adapters.asgi.middleware import Handler
from pilotage.adapters.asgi.problems import NOSNIFF

PAGE = "/docs"
_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
_PACKAGE = "fastapi_swagger.resources"
# A browser refuses whatever the page would load from another place.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'"
)


def add_pages(api: FastAPI) -> None:
    """Add the page, and the files that it loads."""

    async def page(request: Request) -> Response:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        base = f"{root}{PAGE}"
        found = get_swagger_ui_html(
            openapi_url=f"{root}{api.openapi_url}",
            title=api.title,
            swagger_js_url=f"{base}/swagger-ui-bundle.js",
            swagger_css_url=f"{base}/swagger-ui.css",
            swagger_favicon_url=f"{base}/favicon-32x32.png",
            swagger_ui_parameters={"validatorUrl": None, "tryItOutEnabled": True},
        )
        found.headers.update({"content-security-policy": _POLICY, **NOSNIFF})
        return found

    api.router.routes.append(Route(PAGE, page, include_in_schema=False))
    for name, media_type in _ASSETS.items():
        api.router.routes.append(
            Route(f"{PAGE}/{name}", _asset_route(name, media_type), include_in_schema=False)
        )


def _asset_route(name: str, media_type: str) -> Handler:
    async def asset(request: Request) -> Response:
        headers = {"cache-control": "max-age=86400", **NOSNIFF}
        return Response(_content(name), headers=headers, media_type=media_type)

    return asset


@cache
def _content(name: str) -> bytes:
    return files(_PACKAGE).joinpath(name).read_bytes()
