// SPDX-License-Identifier: Apache-2.0
// A bare loop over io_uring: a receive into the connection's own 64 KiB, a send of those bytes, and
// again.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/network/bare_uring.hpp>

int main(int argc, char** argv) {
  lab::network::contender_main<lab::network::bare_uring_plain<64 * 1024>>(argc, argv);
}
