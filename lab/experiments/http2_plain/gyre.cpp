// SPDX-License-Identifier: Apache-2.0
// gyre's server: see gyre_server.hpp.
#include <lab/experiments/http2_plain/gyre_server.hpp>
#include <lab/harness/http2/workload.hpp>

int main(int argc, char** argv) { lab::http2::contender_main<lab::http2::gyre_server>(argc, argv); }
