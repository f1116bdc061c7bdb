# SPDX-License-Identifier: Apache-2.0
# Images of gyre:
#
#   docker build --target develop --tag gyre-develop .   # the packages that CONTRIBUTING.md needs
#   docker run --rm --interactive --tty --volume "$PWD:/gyre" gyre-develop
#   docker build --tag gyre-hello .                      # a small image that runs an example
#   docker run --rm gyre-hello hello_task               # another one
#
# io_uring is used only if the container's seccomp profile allows it; otherwise loops use epoll.

FROM debian:12 AS develop
# Makes the layer of packages depend on their list alone. The Python packages belong to the sources
# that are mounted here: `tools/setup` there installs them.
WORKDIR /gyre
COPY tools/setup tools/
RUN tools/setup all --no-python && rm -rf /var/cache/apt /var/lib/apt/lists/*
CMD ["bash"]

FROM debian:12 AS build
RUN apt-get update && apt-get install --yes --no-install-recommends \
      cmake g++ libbrotli-dev libc-ares-dev libnghttp2-dev liburing-dev libssl-dev libzstd-dev \
      ninja-build nlohmann-json3-dev pkg-config zlib1g-dev && \
    rm -rf /var/cache/apt /var/lib/apt/lists/*
WORKDIR /gyre
COPY CMakeLists.txt LICENSE ./
COPY cmake cmake
COPY gyre gyre
COPY packaging/hello packaging/hello
COPY examples/hello_http.cpp examples/hello_task.cpp examples/
# Compiles the rooms that the programs link, and no others.
RUN cmake -S packaging/hello -B build -G Ninja -DGYRE_SOURCE_DIR=/gyre \
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXE_LINKER_FLAGS=-s && \
    cmake --build build --target hello_http hello_task

FROM debian:12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends \
      libbrotli1 libc-ares2 libnghttp2-14 liburing2 libssl3 libzstd1 zlib1g && \
    rm -rf /var/cache/apt /var/lib/apt/lists/*
COPY --from=build /gyre/build/hello_http /gyre/build/hello_task /usr/local/bin/
# A number, as Kubernetes cannot tell that a name is not root's.
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=3s --start-period=5s CMD ["bash", "-c", \
  "exec 3<>/dev/tcp/127.0.0.1/8080; printf 'GET /hello/me HTTP/1.0\\r\\n\\r\\n' >&3; grep -q me <&3"]
CMD ["hello_http"]
