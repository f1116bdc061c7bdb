// SPDX-License-Identifier: Apache-2.0
// Go's net/http: the program of server.go, with GOMAXPROCS=1.
#include <lab/harness/http2/workload.hpp>
#include <lab/harness/program.hpp>

#include <cstdint>
#include <string>

namespace {

struct go_server {
  static pid_t start(std::uint16_t port, const lab::http::site& site) {
    return lab::start_program({.words = {"env", "GOMAXPROCS=1", GYRE_LAB_HTTP2_GO_SERVER,
                                         std::to_string(port), site.file_path}});
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http2::contender_main<go_server>(argc, argv); }
