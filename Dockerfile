ARG PYTHON_VERSION=3.11

# Only this stage has a C compiler: the wheel that it makes has the hot modules compiled. What it gets
# from a package index is pinned with hashes in requirements/.
FROM python:${PYTHON_VERSION}-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements ./requirements
RUN pip wheel --no-cache-dir --require-hashes --wheel-dir /wheels -r requirements/run.txt \
    && pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY scripts/compiled_wheel.py ./scripts/
COPY docs ./docs
COPY src ./src
RUN HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip wheel --no-cache-dir --no-deps --no-build-isolation \
    --wheel-dir /wheels .

FROM python:${PYTHON_VERSION}-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels hareline
RUN useradd --system --uid 999 --user-group --home-dir /var/lib/hareline --create-home hareline

# All addresses, because nothing outside the container reaches its loopback; and guest from anywhere,
# because to the broker every client outside the container comes from elsewhere. docs/configuration.md
# says what to mind. A variable given to `docker run` outweighs each of these.
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HARELINE_LISTENER__BIND=0.0.0.0 \
    HARELINE_MANAGEMENT__BIND=0.0.0.0 \
    HARELINE_AUTH__LOOPBACK_USERS= \
    HARELINE_DATA_DIR=/var/lib/hareline

# By number, so that Kubernetes sees that it is not root. The broker writes below its data directory
# only, and needs no shell: docs/hardening.md.
USER 999:999
WORKDIR /var/lib/hareline
VOLUME /var/lib/hareline
EXPOSE 5672 15672

HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["hareline", "health", "--alive"]

ENTRYPOINT ["hareline", "serve"]
