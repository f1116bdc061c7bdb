// SPDX-License-Identifier: Apache-2.0
// gyre's loop with its default inbox: linked segments, first in first out over all producers.
#include <gyre/exec/inbox/fifo.hpp>
#include <lab/experiments/hop/gyre_loop.hpp>

int main(int argc, char** argv) { return lab::hop::gyre_main<gyre::inbox::fifo>(argc, argv); }
