// SPDX-License-Identifier: Apache-2.0
// RESTinio: its single-threaded traits without locks and log, the date rendered once a second,
// files by its sendfile.
#include <lab/harness/boost_version.hpp>
#include <lab/harness/http/workload.hpp>

#include <restinio/all.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace {

using lab::http::site;

class restinio_server {
 public:
  static void serve_at(std::uint16_t port, const site& served) {
    using traits = restinio::default_single_thread_traits_t;
    restinio::run(restinio::on_this_thread<traits>()
                      .port(port)
                      .address("127.0.0.1")
                      .max_pipelined_requests(64)
                      .concurrent_accepts_count(8)
                      .request_handler([&served](const restinio::request_handle_t& asked) {
                        return answer(*asked, served);
                      }));
  }

 private:
  template <class Body>
  static auto reply(restinio::request_t& asked, std::string_view type, Body body) {
    return asked.create_response()
        .append_header(restinio::http_field::date, std::string(lab::http::cached_date()))
        .append_header(restinio::http_field::content_type, std::string(type))
        .set_body(std::move(body))
        .done();
  }

  static restinio::request_handling_status_t answer(restinio::request_t& asked,
                                                    const site& served) {
    const auto& head = asked.header();
    if (head.method() == restinio::http_method_post()) {
      return reply(asked, lab::http::bytes_type, asked.body());
    }
    if (head.path() == "/json") {
      return reply(asked, lab::http::json_type, lab::http::make_json());
    }
    if (head.path() == "/file") {
      return reply(asked, lab::http::bytes_type, restinio::sendfile(served.file_path));
    }
    return reply(asked, lab::http::text_type,
                 restinio::const_buffer(lab::http::hello.data(), lab::http::hello.size()));
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::http::contender_main<restinio_server>(argc, argv, {lab::boost_version()});
}
