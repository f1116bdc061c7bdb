// SPDX-License-Identifier: Apache-2.0
// muduo's design: a level-triggered loop on epoll that collects the ready channels of a turn.
#include <lab/experiments/io_event/design_loop.hpp>
#include <lab/harness/network/muduo_design.hpp>

int main(int argc, char** argv) {
  using namespace lab;
  return io_event::contender_main<io_event::design_loop<network::muduo_design>>(argc, argv);
}
