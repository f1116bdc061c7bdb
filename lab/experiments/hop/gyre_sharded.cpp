// SPDX-License-Identifier: Apache-2.0
// gyre's loop with the cheapest inbox: a chunked ring per producer.
#include <gyre/exec/inbox/sharded.hpp>
#include <lab/experiments/hop/gyre_loop.hpp>

int main(int argc, char** argv) { return lab::hop::gyre_main<gyre::inbox::sharded>(argc, argv); }
