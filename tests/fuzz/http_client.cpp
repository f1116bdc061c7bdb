// SPDX-License-Identifier: Apache-2.0
// Fuzz target: bytes of a server that answers an HTTP client. Each request ends, within its limits,
// with the same outcome however the bytes are cut, and what the client sends is well-formed,
// wherever redirects lead.
//
// An input is a byte of flags, two of a cut, and the answers: in the text of the input, or made of
// likely pieces. A byte 1D ends an answer to one request of a connection, 1E one of a connection.
#include <gyre/http/client.hpp>
#include <gyre/http/error.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/spawn.hpp>
#include <tests/fuzz/http_message.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <list>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::net::socket;

constexpr char next_answer = '\x1d';
constexpr char next_connection = '\x1e';
constexpr std::size_t most_body = std::size_t{16} << 10;
constexpr std::size_t most_redirects = 3;

constexpr std::string_view gzip_of_hello(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00"
    "\x00\x00",
    25);

constexpr std::array<std::string_view, 36> pieces{"HTTP/1.1 200 OK\r\n",
                                                  "HTTP/1.0 200 \r\n",
                                                  "HTTP/1.1 100 Continue\r\n\r\n",
                                                  "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n",
                                                  "HTTP/1.1 101 Switch\r\n",
                                                  "HTTP/1.1 204 None\r\n",
                                                  "HTTP/1.1 304 Same\r\n",
                                                  "HTTP/1.1 302 Found\r\nLocation: ",
                                                  "HTTP/1.1 307 Again\r\nLocation: ",
                                                  "HTTP/1.1 404 ",
                                                  "http://b.test:81/a/b",
                                                  "//c.test/x?y#z",
                                                  "../d",
                                                  "?q=\xff",
                                                  "https://e.test/",
                                                  "http://[::1]:1/",
                                                  "Content-Length: 5\r\n",
                                                  "Content-Length: 25\r\n",
                                                  "Content-Length: 0\r\n\r\n",
                                                  "Transfer-Encoding: chunked\r\n\r\n",
                                                  "Content-Encoding: gzip\r\n",
                                                  "Content-Encoding: br\r\n",
                                                  "Content-Encoding: zstd\r\n",
                                                  "Connection: close\r\n",
                                                  "Connection: keep-alive\r\n",
                                                  "Set-Cookie: a=b; Path=/\r\n",
                                                  "\r\n",
                                                  "\r\n\r\n",
                                                  "hello",
                                                  "5\r\nhello\r\n",
                                                  "19\r\n",
                                                  "0\r\nX: trailer\r\n\r\n",
                                                  "0\r\n\r\n",
                                                  gzip_of_hello,
                                                  "\x1d",
                                                  "\x1e"};

std::vector<std::string_view> split(std::string_view text, char end) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(end);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// One end of a connection, which sends one answer for each request.
class server_connection {
 public:
  server_connection(socket accepted, std::string_view answers)
      : socket_(std::move(accepted)), answers_(split(answers, next_answer)) {}

  void receive() {
    std::array<char, 4096> bytes;
    ssize_t count = 0;
    while ((count = ::recv(socket_.fd(), bytes.data(), bytes.size(), 0)) > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(count));
    }
    while (!tunnels_) {
      const std::size_t end = received_.find("\r\n\r\n");
      if (end == std::string::npos) break;
      const std::string head = received_.substr(0, end + 4);
      gyre::http::test::message_judge judge("request");
      judge.feed(head);
      require(judge.verdict().starts_with("accept"));
      tunnels_ = head.starts_with("CONNECT ");
      received_.erase(0, head.size());
      ++requests_;
    }
  }
  /// Sends what is due, or its next part. False if nothing is.
  bool send(std::size_t cut) {
    if (sent_ == answers_.size() || sent_ == requests_) return false;
    std::string_view& answer = answers_[sent_];
    const bool is_whole = cut == 0 || cut >= answer.size() || std::exchange(was_cut_, true);
    const std::string_view part = is_whole ? answer : answer.substr(0, cut);
    ::send(socket_.fd(), part.data(), part.size(), MSG_NOSIGNAL);
    answer.remove_prefix(part.size());
    if (is_whole) ++sent_;
    return true;
  }
  bool end() { return !std::exchange(ended_, true) && ::shutdown(socket_.fd(), SHUT_WR) == 0; }

 private:
  socket socket_;
  std::vector<std::string_view> answers_;
  std::string received_;
  std::size_t requests_ = 0;
  std::size_t sent_ = 0;
  bool tunnels_ = false;
  bool was_cut_ = false;
  bool ended_ = false;
};

struct outcome {
  bool done = false;
  std::error_code error;
  unsigned status = 0;
  std::string text;  // fields, body and trailers
  std::size_t redirects = 0;

  friend bool operator==(const outcome&, const outcome&) = default;
};

struct setup {
  explicit setup(std::uint8_t flags)
      : by_proxy((flags & 2) != 0), streamed((flags & 4) != 0), is_head((flags & 8) != 0) {}
  bool by_proxy;
  bool streamed;
  bool is_head;
};

/// The parts that all inputs share.
struct world {
  world() {
    listener.bind(gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0));
    listener.listen();
    url = "http://" + listener.local_endpoint().to_string() + "/";
  }
  gyre::test::io_in_virtual_time virtual_time;
  socket listener = socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  std::string url;
  gyre::tls::tls_context tls = gyre::tls::tls_context::client({.verify = false});
};

world& shared_world() {
  static world only;
  return only;
}

client_options options_of(const setup& how) {
  client_options options;
  options.limits = {.interim_responses = 2,
                    .body = most_body,
                    .decompressed = most_body,
                    .redirects = most_redirects};
  options.tls = shared_world().tls;
  options.cookies = true;
  // So that no name is looked up.
  options.follow_redirects = how.by_proxy;
  if (how.by_proxy) {
    options.proxy.http = options.proxy.https = gyre::http::url::parse(shared_world().url).value();
  }
  return options;
}

void note(std::string& text, gyre::http::field_list fields) {
  for (const auto& [name, value] : fields) text.append(name).append(":").append(value).append("\n");
}

gyre::task<> read_stream(client_response& from, std::string& body) {
  for (;;) {
    auto reading = from.next_chunk();
    const auto chunk = co_await std::move(reading);
    if (!chunk) co_return;
    body.append(reinterpret_cast<const char*>(chunk->data()), chunk->size());
  }
}

gyre::task<> ask(gyre::http::client& client, setup how, outcome& result) {
  using gyre::http::method;
  client_request request(how.is_head ? method::head : method::get,
                         how.by_proxy ? "http://a.test/" : shared_world().url);
  try {
    auto sending =
        how.streamed ? client.stream(std::move(request)) : client.send(std::move(request));
    client_response answer = co_await std::move(sending);
    std::string body(answer.body());
    if (how.streamed) {
      auto reading = read_stream(answer, body);
      co_await std::move(reading);
    }
    require(how.streamed || body.size() <= most_body);
    require(!how.is_head || body.empty());
    result.status = static_cast<unsigned>(answer.status());
    require(result.status >= 200 && result.status < 1000);  // see gyre::http::status
    result.text = answer.url().to_string() + "\n";
    note(result.text, answer.fields());
    result.text += body;
    note(result.text, answer.trailers());
  } catch (const std::system_error& error) {
    result.error = error.code();
  }
  result.done = true;
}

// Waits a little if nothing happens, as the kernel may deliver late.
void turn(std::size_t idle_turns) {
  shared_world().virtual_time.settle();
  if (idle_turns == 0) return;
  const timespec moment{.tv_sec = 0, .tv_nsec = 200'000};
  ::nanosleep(&moment, nullptr);
}

outcome run(const setup& how, std::string_view text, std::size_t cut) {
  world& all = shared_world();
  const std::vector<std::string_view> answers = split(text, next_connection);
  std::list<server_connection> connections;
  gyre::http::client client(all.virtual_time.loop, options_of(how));
  outcome result;
  gyre::spawn(all.virtual_time.loop, ask(client, how, result));
  for (std::size_t idle_turns = 0; !result.done;) {
    turn(idle_turns);
    bool moved = false;
    for (int accepted = 0; (accepted = ::accept4(all.listener.fd(), nullptr, nullptr,
                                                 SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      const std::size_t number = connections.size();
      connections.emplace_back(socket(gyre::unique_fd(accepted)),
                               number < answers.size() ? answers[number] : std::string_view());
      moved = true;
    }
    for (server_connection& each : connections) {
      each.receive();
      moved = each.send(cut) || moved;
    }
    if (!moved && !result.done) {
      moved = std::ranges::any_of(connections, [](server_connection& each) { return each.end(); });
    }
    idle_turns = moved ? 0 : idle_turns + 1;
    require(idle_turns < 10'000);
  }
  result.redirects = client.metrics().redirects;
  require(result.redirects <= most_redirects);
  require(connections.size() <= 2 * (most_redirects + 1));
  client.close();
  all.virtual_time.settle();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  const std::uint8_t flags = decide.byte();
  const std::size_t cut = decide.below(512);
  const setup how(flags);
  const bool is_raw = (flags & 1) != 0;
  const std::string text =
      is_raw ? std::string(decide.rest()) : gyre::fuzz::make_message(decide, pieces);
  const outcome whole = run(how, text, 0);
  if (cut == 0) return 0;
  const outcome parts = run(how, text, cut);
  // After a redirect the cut may decide whether bytes that nobody has asked for end a connection.
  require(whole.redirects != 0 || parts == whole);
  return 0;
}
