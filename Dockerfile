# Python 3.11.16 on Debian 12, multi-architecture; any base with python3 (3.11 or newer) and its venv module will do.
ARG BASE=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
# Where git comes from; a base that has it needs no network.
ARG GIT_BASE=${BASE}

FROM ${BASE} AS plain
RUN find / -xdev -name '*.so*' > /libraries

FROM ${GIT_BASE} AS git
# The base's distribution says which version fits it.
# hadolint ignore=DL3008
RUN command -v git || (apt-get update && apt-get install --yes --no-install-recommends git)
COPY --from=plain /libraries /
# Two programs of git: the main one, and the one by which it reaches servers, with the libraries that the base lacks.
RUN core="$(git --exec-path)" && mkdir -p "/git$core" /git/usr/bin && cp "$(command -v git)" /git/usr/bin/git \
    && cp "$core/git-remote-http" "/git$core/" && ln -s git-remote-http "/git$core/git-remote-https" \
    && ldd "$core/git-remote-http" > /linked && grep -o '/[^ ]*' /linked > /needed \
    && while read -r library; do \
        place="$(realpath "$(dirname "$library")")"; \
        grep -qxF "$place/$(basename "$library")" /libraries \
        || { mkdir -p "/git$place" && cp "$library" "/git$place/"; }; \
    done < /needed

FROM ${BASE} AS build
WORKDIR /build
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/agent-eval
# A folder wheels/ beside this file, when there is one, is all that pip reads: the build then needs no network.
COPY requirements/build.lock requirements/runtime.lock requirements/sbom.lock wheels* packages/
RUN if ls packages/*.whl >/dev/null 2>&1; then export PIP_NO_INDEX=1 PIP_FIND_LINKS=packages; fi \
    && export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_REQUIRE_HASHES=1 PIP_NO_DEPS=1 PIP_ONLY_BINARY=:all: \
    && /opt/build/bin/pip install --requirement packages/build.lock --requirement packages/sbom.lock \
    && /opt/build/bin/pip --python /opt/agent-eval/bin/python3 install --no-compile \
        --requirement packages/runtime.lock
COPY LICENSE README.md pyproject.toml ./
COPY scripts/compile_imported.py scripts/
COPY agent_eval agent_eval
RUN /opt/build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/build/bin/pip --python /opt/agent-eval/bin/python3 install --no-compile --no-cache-dir --no-index \
        --no-deps dist/*.whl
# Some dependencies ship their tests and benchmarks. What is left is described as it is, with licences and who needs
# what. Lists of files are for uninstalling, and stubs for type checkers; filelock's own bill of materials names no
# component and takes half a megabyte.
RUN find /opt/agent-eval/lib -depth -type d \
        \( -regex '.*/site-packages/.*/_?tests' -o -path '*/site-packages/jsonschema/benchmarks' \
        -o -path '*/filelock-*.dist-info/sboms' \) -exec rm -r {} + \
    && /opt/agent-eval/bin/python3 -IB scripts/compile_imported.py \
    && mkdir -p /opt/agent-eval/share/sbom \
    && /opt/build/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
        --output-file /opt/agent-eval/share/sbom/agent-eval.cdx.json /opt/agent-eval/bin/python3 \
    && find /opt/agent-eval/lib \( -path '*.dist-info/RECORD' -o -name '*.pyi' \) -delete

FROM ${BASE}
ARG BASE
# The workflow that publishes the image (.github/workflows/image.yml) adds its source and revision.
LABEL org.opencontainers.image.title="agent-eval" \
      org.opencontainers.image.description="CI runner for LLM agents: judge, compare, gate" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.base.name="${BASE}"
# For agents in Python; agent-eval itself is isolated from such variables (see entrypoint).
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/agent-eval /opt/agent-eval
# Jobs clone the checkout, and fetch what it lacks.
COPY --from=git /git/ /
COPY --chmod=0755 entrypoint /entrypoint
# Only this name is put on PATH: `python` and `pip` stay those of the base, for the agent and what it needs.
# No program makes its caller another user: the base has su, mount and others that would.
RUN ln -s /entrypoint /usr/local/bin/agent-eval \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
# GitHub runs an action's container as root and owns its working directory, so neither USER nor WORKDIR is set here;
# `docker run --user 1001` works as well.
ENTRYPOINT ["/entrypoint"]
