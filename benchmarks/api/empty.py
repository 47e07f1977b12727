"""The least that FastAPI can answer, served as `ciris-scoring serve` serves: what the API is measured against.

python -m benchmarks.api.empty PORT
"""

import sys

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.get("/")
async def empty() -> dict[str, str]:
    """Answer nothing."""
    return {}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, server_header=False)
