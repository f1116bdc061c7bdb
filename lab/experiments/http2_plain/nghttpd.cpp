// SPDX-License-Identifier: Apache-2.0
// nghttpd, the server of nghttp2: one worker, files from a folder, which it keeps open. It reads
// the body of an upload to its end before it answers by a file. The window of a connection is
// 1 MiB, four times gyre's.
#include <lab/harness/http2/workload.hpp>
#include <lab/harness/program.hpp>

#include <cstdint>
#include <string>

namespace {

struct nghttpd_server {
  static pid_t start(std::uint16_t port, const lab::http::site& site) {
    return lab::start_program(
        {.words = {GYRE_LAB_NGHTTPD, "--no-tls", "--workers=1", "--address=127.0.0.1",
                   "--connection-window-bits=20", "--htdocs=" + lab::http2::folder_of(site),
                   std::to_string(port)}});
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http2::contender_main<nghttpd_server>(argc, argv); }
