// SPDX-License-Identifier: Apache-2.0
// libuv: uv_listen, and a uv_tcp_t per connection; all read into one buffer.
#include <lab/experiments/connections/workload.hpp>

#include <uv.h>

#include <cstddef>
#include <memory>
#include <system_error>

namespace {

void check(int status, const char* what) {
  if (status < 0) throw std::system_error(-status, std::generic_category(), what);
}

class libuv_server {
 public:
  static void serve(int listener) {
    uv_loop_t loop;
    check(uv_loop_init(&loop), "uv_loop_init");
    const std::unique_ptr<char[]> buffer(new char[buffer_bytes]);
    loop.data = buffer.get();
    uv_tcp_t accepting;
    uv_tcp_init(&loop, &accepting);
    check(uv_tcp_open(&accepting, listener), "uv_tcp_open");
    check(uv_listen(reinterpret_cast<uv_stream_t*>(&accepting), backlog, &on_connection),
          "uv_listen");
    uv_run(&loop, UV_RUN_DEFAULT);
  }

 private:
  static constexpr std::size_t buffer_bytes = 64 * 1024;
  static constexpr int backlog = 4096;

  static void on_connection(uv_stream_t* from, int) {
    auto* const connection = new uv_tcp_t;
    uv_tcp_init(from->loop, connection);
    auto* const stream = reinterpret_cast<uv_stream_t*>(connection);
    if (uv_accept(from, stream) == 0) {
      uv_read_start(stream, &lend, &on_read);
    } else {
      end(stream);
    }
  }

  static void lend(uv_handle_t* of, std::size_t, uv_buf_t* to) {
    *to = uv_buf_init(static_cast<char*>(of->loop->data), buffer_bytes);
  }

  static void on_read(uv_stream_t* from, ssize_t got, const uv_buf_t* buffer) {
    if (got < 0) return end(from);
    if (got == 0) return;  // EAGAIN
    const uv_buf_t data = uv_buf_init(buffer->base, static_cast<unsigned>(got));
    uv_try_write(from, &data, 1);
  }

  static void end(uv_stream_t* stream) {
    uv_close(reinterpret_cast<uv_handle_t*>(stream),
             [](uv_handle_t* closed) { delete reinterpret_cast<uv_tcp_t*>(closed); });
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::connections::contender_main<libuv_server>(argc, argv, {{"libuv", uv_version_string()}});
}
