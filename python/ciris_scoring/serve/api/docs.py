"""The page /docs: Swagger UI for the OpenAPI document, served without external files."""

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from ciris_scoring.serve.api.problems import Problem, shown
from ciris_scoring.serve.pages.render import digest

ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
"""Files of the package fastapi-offline and their media types."""
SCRIPT = """
SwaggerUIBundle({url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null})
"""
PAGE = f"""<!doctype html>
<html lang=en>
<head>
<meta charset=utf-8>
<meta name=viewport content="width=device-width, initial-scale=1">
<link rel=icon href="data:,">
<title>API · CIRIS Capacity Score</title>
<link rel=stylesheet href=docs/swagger-ui.css>
</head>
<body>
<noscript>This page needs JavaScript; its content is in <a href=openapi.json>openapi.json</a>.</noscript>
<div id=swagger-ui></div>
<script src=docs/swagger-ui-bundle.js></script>
<script>{SCRIPT}</script>
</body>
</html>
"""
POLICY = "; ".join(
    [
        "default-src 'none'",
        "style-src 'self'",
        f"script-src 'self' '{digest(SCRIPT)}'",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def _docs() -> Response:
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(PAGE, media_type="text/html; charset=utf-8", headers=headers)


@router.get("/docs/{name}")
def _asset(name: str) -> Response:
    if name not in ASSETS:
        raise Problem("not-found", f"There is no file {shown(name)} under /docs.")
    body = files("fastapi_offline").joinpath("static", name).read_bytes()
    return Response(body, media_type=ASSETS[name], headers={"Cache-Control": "private, max-age=3600"})
