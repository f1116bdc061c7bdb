// SPDX-License-Identifier: Apache-2.0
// Serves the files of a folder by GET of HTTP/1.0. The kernel sends them (sendfile); the program
// never sees their bytes.
//
//     file_server FOLDER [ADDRESS:PORT]
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A client uses at most two descriptors, and a process usually has 1024.
constexpr std::uint64_t most_clients = 400;
// Per address, so that one client that sends requests and reads nothing leaves slots for others.
constexpr std::size_t most_of_one_address = 100;
// A client that has not received this many bytes within this time is disconnected.
constexpr std::size_t piece = 64 << 10;
constexpr auto patience = 60s;

struct site {
  gyre::unique_fd folder;
  gyre::semaphore places{most_clients};
  std::unordered_map<gyre::net::ip_address, std::size_t> clients{};
};

// The state of a client that is being served.
class visit {
 public:
  visit(site& visited, const gyre::net::ip_address& from, gyre::semaphore_permit place)
      : visited_(visited), from_(from), place_(std::move(place)) {
    ++visited_.clients[from_];
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  ~visit() {
    if (--visited_.clients[from_] == 0) visited_.clients.erase(from_);
  }
  bool is_one_too_many() const { return visited_.clients[from_] > most_of_one_address; }

 private:
  site& visited_;
  gyre::net::ip_address from_;
  gyre::semaphore_permit place_;
};

// The path of a request "GET /path HTTP/1.0", if it is well-formed and does not lead out of the
// folder.
std::optional<fs::path> requested_path(std::string_view request) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  if (!line.starts_with("GET /") || line.contains('\0')) return {};
  const std::size_t end = line.find(" HTTP/1.", 5);
  if (end == line.npos) return {};
  fs::path path = fs::path(line.substr(5, end - 5)).relative_path().lexically_normal();
  if (!path.has_filename()) path /= "index.html";
  if (*path.begin() == "..") return {};
  return path;
}

// Opens one name after the other, and follows no link: for kernels without openat2(2).
gyre::unique_fd open_step_by_step(int folder, const fs::path& path) {
  gyre::unique_fd opened;
  for (auto name = path.begin(); name != path.end();) {
    const int from = opened ? opened.get() : folder;
    const std::string present = *name++;
    const int kind = name == path.end() ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY;
    opened = gyre::unique_fd(::openat(from, present.c_str(), kind | O_NOFOLLOW | O_CLOEXEC));
    if (!opened) break;
  }
  return opened;
}

// The kernel ensures that no link leads out of the folder. O_NONBLOCK, because opening a pipe would
// wait for a writer.
gyre::unique_fd open_beneath(int folder, const fs::path& path) {
  ::open_how how{};
  how.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long opened = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
  // EPERM: some containers return it for system calls that they do not know.
  if (opened < 0 && (errno == ENOSYS || errno == EPERM)) return open_step_by_step(folder, path);
  return gyre::unique_fd(static_cast<int>(opened));
}

struct content {
  gyre::unique_fd file;
  std::size_t size;
};

// Opens a regular file, and nothing else.
gyre::task<content> open_content(int folder, fs::path path) {
  gyre::unique_fd file = open_beneath(folder, path);
  struct ::stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  if (!S_ISREG(status.st_mode)) throw std::system_error(ENOENT, std::generic_category(), path);
  co_return content{std::move(file), static_cast<std::size_t>(status.st_size)};
}

// Lack of descriptors or memory is not the file's error.
std::string_view status_of(std::error_code error) {
  constexpr std::errc of_the_server[] = {
      std::errc::too_many_files_open, std::errc::too_many_files_open_in_system,
      std::errc::not_enough_memory, std::errc::io_error, std::errc::resource_unavailable_try_again};
  const bool serves = std::ranges::none_of(of_the_server, [&](auto each) { return error == each; });
  return serves ? "404 Not Found" : "503 Service Unavailable";
}

gyre::task<> refuse(gyre::net::tcp_stream& client, std::string_view status) {
  const std::string answer = "HTTP/1.0 " + std::string(status) + "\r\nContent-Length: 0\r\n\r\n";
  co_await gyre::with_timeout(client.write_all(answer), patience);
}

gyre::task<> answer(gyre::net::tcp_stream client, gyre::semaphore_permit place, site& served) {
  const visit here(served, client.peer_endpoint().address(), std::move(place));
  if (here.is_one_too_many()) co_return;
  gyre::io::buffer request;
  const std::size_t size =
      co_await gyre::with_timeout(client.read_until(request, "\r\n\r\n", 8192), 10s);
  const std::optional<fs::path> path = requested_path(request.text().substr(0, size));
  if (!path) {
    co_await refuse(client, "400 Bad Request");
    co_return;
  }

  auto opening = gyre::on(gyre::io::blocking_pool(), open_content(served.folder.get(), *path));
  const auto opened = co_await gyre::as_expected(std::move(opening));
  if (!opened) {
    co_await refuse(client, status_of(opened.error()));
    co_return;
  }

  const std::string header =
      "HTTP/1.0 200 OK\r\nContent-Length: " + std::to_string(opened->size) + "\r\n\r\n";
  co_await gyre::with_timeout(client.write_all(header), patience);
  for (std::size_t sent = 0; sent < opened->size;) {
    const std::size_t count = std::min(piece, opened->size - sent);
    const auto offset = static_cast<::off_t>(sent);
    const std::size_t taken =
        co_await gyre::with_timeout(client.send_file(opened->file.get(), offset, count), patience);
    if (taken == 0) co_return;  // the file has become shorter
    sent += taken;
  }
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address, site& served) {
  gyre::loop& loop = rt.loops()[0];
  gyre::net::tcp_listener listener(loop, address);
  std::cout << "listening on " << listener.local_endpoint() << std::endl;
  for (;;) {
    // Surplus clients wait in the kernel's accept queue.
    gyre::semaphore_permit place = co_await served.places.permit();
    gyre::net::tcp_stream client = co_await listener.accept();
    auto answering = answer(std::move(client), std::move(place), served);
    // Downloads that have begun before SIGTERM are finished.
    rt.spawn(loop, gyre::as_expected(std::move(answering)), gyre::shutdown_phase::force);
  }
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: file_server FOLDER [ADDRESS:PORT]\n";
    return 2;
  }
  site served{gyre::unique_fd(::open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC))};
  if (!served.folder) {
    std::cerr << "file_server: " << argv[1] << " cannot be opened\n";
    return 1;
  }
  const char* address = argc > 2 ? argv[2] : "[::]:8080";
  return gyre::runtime::main({.loops = 1},
                             [&](gyre::runtime& rt) { return serve(rt, address, served); });
}
