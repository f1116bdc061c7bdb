// SPDX-License-Identifier: Apache-2.0
// hyper, in Rust: the program of http_plain/server.rs, one thread of Tokio.
#include <lab/harness/http2/workload.hpp>
#include <lab/harness/program.hpp>

#include <cstdint>
#include <string>

namespace {

struct hyper_server {
  static pid_t start(std::uint16_t port, const lab::http::site& site) {
    return lab::start_program(
        {.words = {GYRE_LAB_HYPER_SERVER, std::to_string(port), site.file_path, "http2"}});
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http2::contender_main<hyper_server>(argc, argv); }
