# The images of a cluster: `coordinator`, without torch, and `worker`. docs/docker.md tells how to build and run them.
#
#   docker build --target coordinator -t regroup-coordinator .
#   docker build --target worker -t regroup-worker .                                            # CUDA
#   docker build --target worker -t regroup-worker:cpu --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu .

ARG BASE_IMAGE=python:3.11-slim-bookworm
# An image whose root folder holds wheels that no index has; `scratch` holds none.
ARG WHEELS_IMAGE=scratch

FROM ${WHEELS_IMAGE} AS wheels

# What builds, and never becomes a part of what runs.
FROM ${BASE_IMAGE} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_WARN_SCRIPT_LOCATION=1 PIP_ROOT_USER_ACTION=ignore PIP_FIND_LINKS=/wheels
WORKDIR /src
# An environment without pip: nothing can be installed where it runs.
RUN python3 -m venv /builder && python3 -m venv --without-pip /opt/regroup
COPY pyproject.toml requirements.lock ./
COPY docker/install ./docker/

# Regroup itself, in an environment that holds nothing else: the one small layer that a change of its code makes anew.
FROM builder AS code
RUN --mount=type=cache,target=/root/.cache/pip --mount=type=secret,id=ca docker/install tools
COPY README.md LICENSE ./
COPY services services
RUN docker/install regroup

FROM builder AS coordinator-packages
RUN --mount=type=cache,target=/root/.cache/pip --mount=type=secret,id=ca --mount=type=bind,from=wheels,target=/wheels \
    docker/install packages coordinator

FROM builder AS worker-packages
# Where torch comes from beside the usual index; "": from there, which is the CUDA build.
ARG TORCH_INDEX=
RUN --mount=type=cache,target=/root/.cache/pip --mount=type=secret,id=ca --mount=type=bind,from=wheels,target=/wheels \
    PIP_EXTRA_INDEX_URL=${TORCH_INDEX} docker/install packages worker,s3

# What both have in common: a user of its own, one folder to write to, and the commands on the path.
FROM ${BASE_IMAGE} AS runtime
ARG USER_ID=10001
RUN --mount=type=bind,source=docker/install,target=/install /install nothing
RUN groupadd --gid ${USER_ID} regroup \
    && useradd --uid ${USER_ID} --gid ${USER_ID} --no-create-home --home-dir /data --shell /usr/sbin/nologin regroup \
    && install -d -m 0700 -o regroup -g regroup /data /secrets \
        /secrets/coordinator /secrets/redis /secrets/worker /secrets/prometheus /secrets/grafana
ENV PATH=/opt/regroup/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 REGROUP_DATA_DIR=/data
USER ${USER_ID}:${USER_ID}
WORKDIR /data
VOLUME /data

FROM runtime AS coordinator
COPY --from=coordinator-packages /opt/regroup /opt/regroup
COPY --from=code /opt/regroup /opt/regroup
ENV REGROUP_HOST=0.0.0.0 REGROUP_LINK_HOST=0.0.0.0
EXPOSE 8787 8788
HEALTHCHECK --interval=3s --timeout=5s --start-period=20s CMD ["regroup-coordinator", "--check"]
ENTRYPOINT ["regroup-coordinator"]
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Regroup coordinator" \
      org.opencontainers.image.description="Jobs, workers and decisions of an elastic training cluster; REST and control plane." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"

FROM runtime AS worker
COPY --from=worker-packages /opt/regroup /opt/regroup
COPY --from=code /opt/regroup /opt/regroup
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=6 CMD ["regroup-agent", "--check"]
ENTRYPOINT ["regroup-agent"]
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Regroup worker" \
      org.opencontainers.image.description="One worker of an elastic training cluster: an agent and its trainer." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
