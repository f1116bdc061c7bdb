// SPDX-License-Identifier: Apache-2.0
// evpp's design: a loop on libevent's core, buffers in arrays, reads that overflow into 64 KiB of
// the stack.
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/network/buffered_connections.hpp>
#include <lab/harness/network/evpp_design.hpp>

#include <event2/event.h>

int main(int argc, char** argv) {
  using namespace lab::network;
  contender_main<buffered_connections<evpp_design>>(argc, argv,
                                                    {{"libevent", event_get_version()}});
}
