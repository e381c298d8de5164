# Python 3.11.16 on Debian 12, multi-architecture; any base with python3 (3.11 or newer) and its venv module will do.
ARG BASE=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE} AS build
WORKDIR /build
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/agent-eval
# A folder wheels/ beside this file, when there is one, is all that pip reads: the build then needs no network.
COPY requirements/build.lock requirements/runtime.lock wheels* packages/
RUN if ls packages/*.whl >/dev/null 2>&1; then export PIP_NO_INDEX=1 PIP_FIND_LINKS=packages; fi \
    && export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_REQUIRE_HASHES=1 PIP_ONLY_BINARY=:all: \
    && /opt/build/bin/pip install --requirement packages/build.lock \
    && /opt/build/bin/pip --python /opt/agent-eval/bin/python3 install --requirement packages/runtime.lock
COPY LICENSE README.md pyproject.toml ./
COPY agent_eval agent_eval
RUN /opt/build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/build/bin/pip --python /opt/agent-eval/bin/python3 install --no-cache-dir --no-index --no-deps dist/*.whl

FROM ${BASE}
LABEL org.opencontainers.image.title="agent-eval" \
      org.opencontainers.image.description="CI runner for LLM agents: judge, compare, gate" \
      org.opencontainers.image.licenses="MIT"
# For agents in Python; agent-eval itself is isolated from such variables (see entrypoint).
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/agent-eval /opt/agent-eval
COPY entrypoint /entrypoint
# Only this name is put on PATH: `python` and `pip` stay those of the base, for the agent and what it needs.
RUN ln -s /entrypoint /usr/local/bin/agent-eval
# GitHub runs an action's container as root and owns its working directory, so neither USER nor WORKDIR is set here;
# `docker run --user 1001` works as well.
ENTRYPOINT ["/entrypoint"]
