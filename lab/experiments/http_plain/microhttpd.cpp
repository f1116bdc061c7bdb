// SPDX-License-Identifier: Apache-2.0
// GNU libmicrohttpd: one thread with epoll, MHD_USE_TURBO, and responses that are made once and
// queued again, as far as they do not depend on the request. Their Date is written once a second,
// as the library would write it for every response.
#include <lab/harness/http/workload.hpp>

#include <microhttpd.h>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>

namespace {

using lab::http::site;
using response = std::unique_ptr<MHD_Response, decltype(&MHD_destroy_response)>;

response typed(MHD_Response* handle, std::string_view type) {
  if (handle == nullptr) throw std::bad_alloc();
  MHD_add_response_header(handle, MHD_HTTP_HEADER_CONTENT_TYPE, type.data());
  MHD_add_response_header(handle, MHD_HTTP_HEADER_DATE, lab::http::cached_date().data());
  return {handle, &MHD_destroy_response};
}

response made_of(std::string_view bytes, std::string_view type, MHD_ResponseMemoryMode mode) {
  void* const data = const_cast<char*>(bytes.data());
  return typed(MHD_create_response_from_buffer(bytes.size(), data, mode), type);
}

class microhttpd_server {
 public:
  static void serve(int listener, const site& site) {
    date_ = lab::http::cached_date();
    const response hello = made_of(lab::http::hello, lab::http::text_type, MHD_RESPMEM_PERSISTENT);
    const response file = typed(MHD_create_response_from_fd(lab::http::file_bytes, dup(site.file)),
                                lab::http::bytes_type);
    hello_ = hello.get();
    file_ = file.get();
    MHD_Daemon* const running = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO | MHD_USE_SUPPRESS_DATE_NO_CLOCK, 0, nullptr,
        nullptr, &answer, nullptr, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
        60'000U, MHD_OPTION_CONNECTION_TIMEOUT, 60U, MHD_OPTION_NOTIFY_COMPLETED, &completed,
        nullptr, MHD_OPTION_END);
    if (running == nullptr) throw std::bad_alloc();
    for (;;) pause();
  }

 private:
  // The first call for a request has no body; `context` marks it.
  static MHD_Result answer(void*, MHD_Connection* peer, const char* target, const char* method,
                           const char*, const char* data, std::size_t* size, void** context) {
    const bool is_post = std::strcmp(method, "POST") == 0;
    if (*context == nullptr) {
      *context = is_post ? static_cast<void*>(make_body(peer)) : &no_body_;
      return MHD_YES;
    }
    if (is_post) {
      auto& body = *static_cast<std::string*>(*context);
      if (*size == 0) return send_body(peer, body);
      body.append(data, *size);
    }
    if (*size != 0) {
      *size = 0;
      return MHD_YES;
    }
    if (std::strcmp(target, "/json") == 0) {
      const response made =
          made_of(lab::http::make_json(), lab::http::json_type, MHD_RESPMEM_MUST_COPY);
      return MHD_queue_response(peer, MHD_HTTP_OK, made.get());
    }
    renew_date();
    const bool is_file = std::strcmp(target, "/file") == 0;
    return MHD_queue_response(peer, MHD_HTTP_OK, is_file ? file_ : hello_);
  }

  // An empty text with room for the whole body, which comes in parts.
  static std::string* make_body(MHD_Connection* peer) {
    constexpr std::size_t max_room = std::size_t{1} << 20;
    auto* const body = new std::string;
    const char* const size = MHD_lookup_connection_value(peer, MHD_HEADER_KIND, "Content-Length");
    if (size != nullptr)
      body->reserve(std::min<std::size_t>(std::strtoull(size, nullptr, 10), max_room));
    return body;
  }

  static void renew_date() {
    const std::string_view date = lab::http::cached_date();
    if (date == date_) return;
    for (MHD_Response* const each : {hello_, file_}) {
      MHD_del_response_header(each, MHD_HTTP_HEADER_DATE, date_.c_str());
      MHD_add_response_header(each, MHD_HTTP_HEADER_DATE, date.data());
    }
    date_ = date;
  }

  // `body` lives until completed().
  static MHD_Result send_body(MHD_Connection* peer, const std::string& body) {
    const response made = made_of(body, lab::http::bytes_type, MHD_RESPMEM_PERSISTENT);
    return MHD_queue_response(peer, MHD_HTTP_OK, made.get());
  }

  static void completed(void*, MHD_Connection*, void** context, MHD_RequestTerminationCode) {
    if (*context != &no_body_) delete static_cast<std::string*>(*context);
    *context = nullptr;
  }

  static inline MHD_Response* hello_ = nullptr;
  static inline MHD_Response* file_ = nullptr;
  static inline std::string date_;  // of these responses
  static inline int no_body_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  lab::http::contender_main<microhttpd_server>(argc, argv, {{"libmicrohttpd", MHD_get_version()}});
}
