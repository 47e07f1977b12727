"""The page /docs, which describes the API from its OpenAPI document, without JavaScript or other servers."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from ciris_scoring.show.api.pages import HTML, POLICY
from ciris_scoring.show.pages.pages import api_page

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def _docs(request: Request) -> Response:
    headers = {"Cache-Control": "no-cache", **POLICY}
    return Response(api_page(request.app.openapi()), media_type=HTML, headers=headers)
