// SPDX-License-Identifier: Apache-2.0
// gyre's server, asked by HTTP/1.1: see gyre_server.hpp and run_http1_client().
#include <lab/experiments/http2_plain/gyre_server.hpp>
#include <lab/harness/http2/workload.hpp>

namespace {

struct gyre_server_of_http1 : lab::http2::gyre_server {
  static constexpr bool speaks_http1 = true;
};

}  // namespace

int main(int argc, char** argv) { lab::http2::contender_main<gyre_server_of_http1>(argc, argv); }
