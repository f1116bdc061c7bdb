// SPDX-License-Identifier: Apache-2.0
// h2o: one thread, files from a folder, without a log. It answers uploads by 405.
#include <lab/harness/http2/workload.hpp>
#include <lab/harness/program.hpp>

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace {

struct h2o_server {
  static pid_t start(std::uint16_t port, const lab::http::site& site) {
    const std::string documents = lab::http2::folder_of(site);
    const std::string settings = documents + "/../h2o-" + std::to_string(port) + ".conf";
    std::ofstream(settings) << text(documents, port);
    return lab::start_program({.words = {GYRE_LAB_H2O, "--conf", settings}});
  }

 private:
  static std::string text(const std::string& documents, std::uint16_t port) {
    const std::string user = geteuid() == 0 ? "user: root\n" : "";
    return user + "num-threads: 1\nmax-connections: 65000\nhttp2-idle-timeout: 60\nlisten:\n" +
           "  host: 127.0.0.1\n  port: " + std::to_string(port) +
           "\nhosts:\n  default:\n    paths:\n      /:\n        file.dir: " + documents + '\n';
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http2::contender_main<h2o_server>(argc, argv); }
