// SPDX-License-Identifier: Apache-2.0
// Boost.Beast: asynchronous reads and writes of whole messages on an io_context without locks, with
// typed executors and without time limits. Bodies of answers are spans, files are file_body. Fields
// are stored in the session, as in Beast's fast server.
#include <lab/harness/boost_version.hpp>
#include <lab/harness/http/workload.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/file_posix.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using context = boost::asio::io_context;
using tcp = boost::asio::ip::tcp;
using socket = boost::asio::basic_stream_socket<tcp, context::executor_type>;
using acceptor = boost::asio::basic_socket_acceptor<tcp, context::executor_type>;
using boost::system::error_code;
using lab::http::site;

constexpr std::size_t read_bytes = 20 * 1024;  // a head and a body of 16 KiB in one read

/// Room for the fields of a message, used from its beginning again when all of them are gone.
class field_room {
 public:
  void* allocate(std::size_t bytes) {
    bytes = (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) *
            alignof(std::max_align_t);
    if (bytes > room_.size() - used_) return ::operator new(bytes);
    ++pieces_;
    used_ += bytes;
    return room_.data() + used_ - bytes;
  }

  void deallocate(void* piece) {
    const auto* const place = static_cast<std::byte*>(piece);
    if (std::less<>()(place, room_.data()) || !std::less<>()(place, room_.data() + room_.size())) {
      return ::operator delete(piece);
    }
    if (--pieces_ == 0) used_ = 0;
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, 2048> room_;
  std::size_t used_ = 0;
  std::size_t pieces_ = 0;
};

template <class T>
struct field_allocator {
  using value_type = T;

  explicit field_allocator(field_room& memory) : room(&memory) {}
  template <class U>
  field_allocator(const field_allocator<U>& other) : room(other.room) {}

  T* allocate(std::size_t count) { return static_cast<T*>(room->allocate(count * sizeof(T))); }
  void deallocate(T* piece, std::size_t) { room->deallocate(piece); }
  bool operator==(const field_allocator&) const = default;

  field_room* room;
};

using allocator = field_allocator<char>;
using fields = http::basic_fields<allocator>;

class session : public std::enable_shared_from_this<session> {
 public:
  session(socket accepted, const site& site) : socket_(std::move(accepted)), site_(site) {
    error_code ignored;
    std::ignore = socket_.set_option(tcp::no_delay(true), ignored);
    buffer_.reserve(read_bytes);  // an empty one would read 512 bytes at a time
  }

  void read() {
    parser_.emplace(std::piecewise_construct, std::make_tuple(),
                    std::make_tuple(allocator(request_room_)));
    http::async_read(socket_, buffer_, *parser_,
                     [self = shared_from_this()](const error_code& error, std::size_t) {
                       if (!error) return self->answer();
                       if (is_malformed(error)) self->refuse();
                     });
  }

 private:
  static bool is_malformed(const error_code& error) {
    const error_code end = http::error::end_of_stream;
    return error.category() == end.category() && error != end;
  }

  template <class Response>
  void prepare(Response& response, std::string_view type) {
    response.set(http::field::date, lab::http::cached_date());
    response.set(http::field::content_type, type);
    response.keep_alive(parser_->keep_alive());
    response.prepare_payload();
  }

  void send(std::string_view type, std::string_view body) {
    make(response_, http::status::ok);
    response_->body() = beast::span<const char>(body.data(), body.size());
    prepare(*response_, type);
    write(*response_);
  }

  template <class Response>
  void make(std::optional<Response>& response, http::status status) {
    response.reset();
    response.emplace(std::piecewise_construct, std::make_tuple(),
                     std::make_tuple(status, 11U, allocator(response_room_)));
  }

  template <class Response>
  void write(Response& response) {
    http::async_write(socket_, response,
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        if (error) return;
                        if (self->parser_->keep_alive()) return self->read();
                        self->end();
                      });
  }

  void answer() {
    const auto& request = parser_->get();
    if (request.method() == http::verb::post) return send(lab::http::bytes_type, request.body());
    if (request.target() == "/json") {
      text_ = lab::http::make_json();
      return send(lab::http::json_type, text_);
    }
    if (request.target() == "/file") return send_file();
    send(lab::http::text_type, lab::http::hello);
  }

  void send_file() {
    make(file_, http::status::ok);
    error_code error;
    file_->body().open(site_.file_path.c_str(), beast::file_mode::scan, error);
    if (error) return;
    prepare(*file_, lab::http::bytes_type);
    write(*file_);
  }

  void refuse() {
    make(response_, http::status::bad_request);
    response_->keep_alive(false);
    response_->prepare_payload();
    http::async_write(socket_, *response_,
                      [self = shared_from_this()](const error_code&, std::size_t) { self->end(); });
  }

  void end() {
    error_code ignored;
    std::ignore = socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }

  socket socket_;
  const site& site_;
  beast::flat_buffer buffer_;
  field_room request_room_;
  field_room response_room_;
  std::optional<http::request_parser<http::string_body, allocator>> parser_;
  std::optional<http::response<http::span_body<const char>, fields>> response_;
  std::optional<http::response<http::file_body, fields>> file_;
  std::string text_;
};

class beast_server {
 public:
  static void serve(int listener, const site& site) {
    context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    acceptor accepting(loop, tcp::v4(), listener);
    accept(accepting, site);
    loop.run();
  }

 private:
  static void accept(acceptor& listener, const site& site) {
    listener.async_accept([&](const error_code& error, socket accepted) {
      if (!error) std::make_shared<session>(std::move(accepted), site)->read();
      accept(listener, site);
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::http::contender_main<beast_server>(argc, argv, {lab::boost_version()});
}
