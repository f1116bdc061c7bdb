# SPDX-License-Identifier: Apache-2.0
# Images of gyre:
#
#   docker build --target develop --tag gyre-develop .   # all tools that CONTRIBUTING.md names
#   docker build --tag gyre-hello .                      # a small image that runs an example
#
# io_uring is used only if the container's seccomp profile allows it; otherwise loops use epoll.

FROM debian:12 AS develop
# Makes the layer of packages and tools depend on their lists alone.
WORKDIR /gyre
COPY tools/setup tools/
COPY lab/requirements.lock lab/
RUN tools/setup all && rm -rf /var/lib/apt/lists/*
CMD ["bash"]

FROM debian:12 AS build
RUN apt-get update && apt-get install --yes --no-install-recommends \
      cmake g++ libbrotli-dev libc-ares-dev libnghttp2-dev liburing-dev libssl-dev libzstd-dev \
      ninja-build nlohmann-json3-dev pkg-config zlib1g-dev && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /gyre
COPY CMakeLists.txt LICENSE ./
COPY cmake cmake
COPY gyre gyre
RUN cmake -B build -G Ninja -DGYRE_BUILD_TESTS=OFF -DGYRE_BUILD_LAB=OFF \
      -DGYRE_BUILD_EXAMPLES=OFF && \
    cmake --build build && cmake --install build --prefix /usr/local && rm -rf build
COPY examples/hello_http.cpp examples/
RUN g++ -std=c++23 -O2 examples/hello_http.cpp $(pkg-config --cflags --libs gyre) -o hello_http

FROM debian:12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends \
      libbrotli1 libc-ares2 libnghttp2-14 liburing2 libssl3 libzstd1 zlib1g && \
    rm -rf /var/lib/apt/lists/* && useradd --system gyre
COPY --from=build /gyre/hello_http /usr/local/bin/hello_http
USER gyre
EXPOSE 8080
CMD ["hello_http"]
