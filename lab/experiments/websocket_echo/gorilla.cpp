// SPDX-License-Identifier: Apache-2.0
// Gorilla WebSocket on Go's net/http: the program of the folder gorilla, with GOMAXPROCS=1.
#include <lab/harness/program.hpp>
#include <lab/harness/websocket/workload.hpp>

#include <cstdint>
#include <string>

namespace {

struct gorilla_server {
  static pid_t start(std::uint16_t port) {
    return lab::start_program(
        {.words = {"env", "GOMAXPROCS=1", GYRE_LAB_GORILLA_SERVER, std::to_string(port)}});
  }
};

}  // namespace

int main(int argc, char** argv) { lab::websocket::contender_main<gorilla_server>(argc, argv); }
