// SPDX-License-Identifier: Apache-2.0
// A bare loop over io_uring: multishot receive into a ring of 256 buffers of 16 KiB, send(2) at
// once.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/network/bare_uring.hpp>

int main(int argc, char** argv) {
  lab::network::contender_main<lab::network::bare_uring_multishot<256, 16 * 1024>>(argc, argv);
}
