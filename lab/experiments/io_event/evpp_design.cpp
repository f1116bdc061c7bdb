// SPDX-License-Identifier: Apache-2.0
// evpp's design: a channel with callbacks over one of libevent's persistent events.
#include <lab/experiments/io_event/design_loop.hpp>
#include <lab/harness/network/evpp_design.hpp>

#include <event2/event.h>

int main(int argc, char** argv) {
  using namespace lab;
  return io_event::contender_main<io_event::design_loop<network::evpp_design>>(
      argc, argv, {{"libevent", event_get_version()}});
}
