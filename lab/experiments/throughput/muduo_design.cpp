// SPDX-License-Identifier: Apache-2.0
// muduo's design: a level-triggered loop on epoll, buffers in vectors, reads that overflow into
// 64 KiB of the stack.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/network/buffered_connections.hpp>
#include <lab/harness/network/muduo_design.hpp>

int main(int argc, char** argv) {
  using namespace lab::network;
  contender_main<buffered_connections<muduo_design>>(argc, argv);
}
