// SPDX-License-Identifier: Apache-2.0
// hyper, in Rust: the program of server.rs, one thread of Tokio.
#include <lab/harness/http/workload.hpp>
#include <lab/harness/program.hpp>

#include <unistd.h>

#include <cstdint>
#include <string>

namespace {

struct hyper_server {
  static pid_t start(int listener, std::uint16_t port, const lab::http::site& site) {
    close(listener);
    return lab::start_program(
        {.words = {GYRE_LAB_HYPER_SERVER, std::to_string(port), site.file_path}});
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http::contender_main<hyper_server>(argc, argv); }
