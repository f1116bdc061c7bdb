// SPDX-License-Identifier: Apache-2.0
// A bare loop over epoll, all of whose connections share one receive buffer of 64 KiB.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/network/bare_epoll.hpp>

int main(int argc, char** argv) {
  lab::network::contender_main<lab::network::bare_epoll<64 * 1024>>(argc, argv);
}
