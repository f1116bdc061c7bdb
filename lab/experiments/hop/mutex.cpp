// SPDX-License-Identifier: Apache-2.0
// gyre's loop with the inbox that evpp has by default: a vector under a mutex.
#include <gyre/exec/inbox/mutex.hpp>
#include <lab/experiments/hop/gyre_loop.hpp>

int main(int argc, char** argv) { return lab::hop::gyre_main<gyre::inbox::mutex>(argc, argv); }
