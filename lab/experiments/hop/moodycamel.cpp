// SPDX-License-Identifier: Apache-2.0
// gyre's loop with moodycamel::ConcurrentQueue as its inbox.
#include <gyre/exec/inbox/moodycamel.hpp>
#include <lab/experiments/hop/gyre_loop.hpp>

int main(int argc, char** argv) { return lab::hop::gyre_main<gyre::inbox::moodycamel>(argc, argv); }
