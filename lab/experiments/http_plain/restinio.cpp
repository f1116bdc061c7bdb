// SPDX-License-Identifier: Apache-2.0
// RESTinio: its single-threaded traits without locks and log; connections inherit TCP_NODELAY from
// the listener; the date is rendered once a second; files are sent by its sendfile from a duplicate
// of the open descriptor. Its buffer has room for a body of 16 KiB.
#include <lab/harness/boost_version.hpp>
#include <lab/harness/http/workload.hpp>
#include <lab/harness/network/socket.hpp>

#include <restinio/all.hpp>

#include <fcntl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace {

using lab::http::site;

class restinio_server {
 public:
  static void serve_at(std::uint16_t port, const site& site) {
    using traits = restinio::default_single_thread_traits_t;
    restinio::run(restinio::on_this_thread<traits>()
                      .port(port)
                      .address("127.0.0.1")
                      .max_pipelined_requests(64)
                      .buffer_size(std::size_t{20} * 1024)
                      .concurrent_accepts_count(8)
                      .acceptor_options_setter([](restinio::acceptor_options_t& options) {
                        options.set_option(restinio::asio_ns::ip::tcp::no_delay(true));
                        options.set_option(
                            restinio::asio_ns::ip::tcp::acceptor::reuse_address(true));
                      })
                      .request_handler([&site](const restinio::request_handle_t& request) {
                        return answer(*request, site);
                      }));
  }

 private:
  template <class Body>
  static auto reply(restinio::request_t& request, std::string_view type, Body body) {
    return request.create_response()
        .append_header(restinio::http_field::date, std::string(lab::http::cached_date()))
        .append_header(restinio::http_field::content_type, std::string(type))
        .set_body(std::move(body))
        .done();
  }

  static restinio::sendfile_t file_of(const site& site) {
    static const auto opened = std::chrono::system_clock::now();
    const int file = lab::network::checked(fcntl(site.file, F_DUPFD_CLOEXEC, 0), "fcntl");
    return restinio::sendfile(restinio::file_descriptor_holder_t(file),
                              restinio::file_meta_t(lab::http::file_bytes, opened));
  }

  static restinio::request_handling_status_t answer(restinio::request_t& request,
                                                    const site& site) {
    const auto& head = request.header();
    if (head.method() == restinio::http_method_post()) {
      // The answer shares the request, whose body it would have to copy otherwise.
      const auto body =
          std::shared_ptr<const std::string>(request.shared_from_this(), &request.body());
      return reply(request, lab::http::bytes_type, body);
    }
    if (head.path() == "/json") {
      return reply(request, lab::http::json_type, lab::http::make_json());
    }
    if (head.path() == "/file") {
      return reply(request, lab::http::bytes_type, file_of(site));
    }
    return reply(request, lab::http::text_type,
                 restinio::const_buffer(lab::http::hello.data(), lab::http::hello.size()));
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::http::contender_main<restinio_server>(argc, argv, {lab::boost_version()});
}
