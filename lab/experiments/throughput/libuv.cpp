// SPDX-License-Identifier: Apache-2.0
// libuv: uv_read_start with one receive buffer of 1 MiB that all connections of a loop share.
// Sharing is allowed, as the callback no longer uses the buffer when it returns: it writes at once
// with uv_try_write, and passes a copy of the bytes that the kernel did not accept to uv_write.
#include <lab/experiments/throughput/contender.hpp>

#include <uv.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <system_error>
#include <vector>

namespace {

void check(int status, const char* what) {
  if (status < 0) throw std::system_error(-status, std::generic_category(), what);
}

class libuv_contender {
 public:
  template <lab::network::any_session Session>
  static void run(std::span<Session> sessions) {
    uv_loop_t loop;
    check(uv_loop_init(&loop), "uv_loop_init");
    const std::unique_ptr<char[]> buffer(new char[buffer_bytes]);
    loop.data = buffer.get();
    std::vector<connection<Session>> connections(sessions.size());
    for (std::size_t i = 0; i < sessions.size(); ++i) connections[i].open(loop, sessions[i]);
    for (auto& each : connections) each.write(each.served->first());
    uv_run(&loop, UV_RUN_DEFAULT);
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

  // A copy of the data to write, stored behind the request itself.
  struct rest {
    uv_write_t request;
    char bytes[];
  };

  template <class Session>
  struct connection {
    uv_tcp_t handle;
    Session* served;

    void open(uv_loop_t& loop, Session& session) {
      served = &session;
      uv_tcp_init(&loop, &handle);
      handle.data = this;
      check(uv_tcp_open(&handle, session.fd()), "uv_tcp_open");
      check(uv_read_start(stream(), &lend, &on_read), "uv_read_start");
    }

    uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&handle); }

    static void lend(uv_handle_t* of, std::size_t, uv_buf_t* to) {
      *to = uv_buf_init(static_cast<char*>(of->loop->data), buffer_bytes);
    }

    static void on_read(uv_stream_t* from, ssize_t got, const uv_buf_t* buffer) {
      auto& self = *static_cast<connection*>(from->data);
      if (got < 0) self.served->lost();
      if (got == 0) return;  // EAGAIN
      self.write(self.served->received(
          std::as_bytes(std::span(buffer->base, static_cast<std::size_t>(got)))));
    }

    void write(std::span<const std::byte> data) {
      if (data.empty()) return;
      const uv_buf_t all = buffer_of(data.data(), data.size());
      const int taken = uv_try_write(stream(), &all, 1);
      if (taken < 0 && taken != UV_EAGAIN) served->lost();
      data = data.subspan(taken < 0 ? 0 : static_cast<std::size_t>(taken));
      if (data.empty()) return;

      rest* const copy = static_cast<rest*>(std::malloc(sizeof(rest) + data.size()));
      if (copy == nullptr) throw std::bad_alloc();
      std::memcpy(copy->bytes, data.data(), data.size());
      const uv_buf_t left = buffer_of(copy->bytes, data.size());
      uv_write(&copy->request, stream(), &left, 1, [](uv_write_t* written, int status) {
        if (status < 0) static_cast<connection*>(written->handle->data)->served->lost();
        std::free(written);
      });
    }

    static uv_buf_t buffer_of(const void* data, std::size_t size) {
      // libuv's buffers serve reads and writes, so they are not const.
      return uv_buf_init(static_cast<char*>(const_cast<void*>(data)), static_cast<unsigned>(size));
    }
  };
};

}  // namespace

int main(int argc, char** argv) {
  lab::network::contender_main<libuv_contender>(argc, argv, {{"libuv", uv_version_string()}});
}
