// SPDX-License-Identifier: Apache-2.0
// nginx: one process without a master and a log; a fixed answer by `return 200`, the file by
// sendfile from a descriptor that its cache keeps open.
#include <lab/harness/http/workload.hpp>
#include <lab/harness/program.hpp>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

using lab::http::site;

struct nginx_server {
  static pid_t start(int listener, std::uint16_t port, const site& site) {
    close(listener);
    const std::filesystem::path folder = std::filesystem::path(GYRE_LAB_NGINX_FOLDER);
    std::filesystem::create_directories(folder);
    const std::filesystem::path settings = folder / (std::to_string(port) + ".conf");
    std::ofstream(settings) << text(folder.string(), port, site);
    return lab::start_program({.words = {GYRE_LAB_NGINX, "-p", folder, "-c", settings}});
  }

 private:
  static std::string text(const std::string& folder, std::uint16_t port, const site& site) {
    std::string temporary;
    for (const char* const each : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
      temporary += std::string("  ") + each + "_temp_path " + folder + '/' + each + ";\n";
    }
    const std::string user = geteuid() == 0 ? "user root;\n" : "";
    return user + "daemon off;\nmaster_process off;\nerror_log stderr crit;\npid " + folder + '/' +
           std::to_string(port) + R"(.pid;
worker_rlimit_nofile 70000;
events { use epoll; worker_connections 65000; multi_accept on; }
http {
)" + temporary +
           R"(  access_log off;
  sendfile on;
  sendfile_max_chunk 0;
  tcp_nopush on;
  keepalive_requests 1000000000;
  client_header_buffer_size 16k;
  open_file_cache max=16 inactive=60s;
  open_file_cache_valid 60s;
  server {
    listen 127.0.0.1:)" +
           std::to_string(port) + R"( backlog=4096;
    location / { default_type text/plain; return 200 "Hello, World!"; }
    location = /file { default_type application/octet-stream; alias )" +
           site.file_path + R"(; }
  }
}
)";
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http::contender_main<nginx_server>(argc, argv); }
