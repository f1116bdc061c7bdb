// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http2/documents.hpp>

#include <lab/harness/network/socket.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace lab::http2 {
namespace {

// Makes a file unless it is there: whole, or not at all, as other runs may do the same.
void make_document(const std::filesystem::path& file, std::string_view bytes) {
  std::error_code missing;
  if (std::filesystem::file_size(file, missing) == bytes.size() && !missing) return;
  const std::filesystem::path made = file.string() + "." + std::to_string(getpid());
  std::ofstream(made, std::ios::binary) << bytes;
  std::filesystem::rename(made, file);
}

}  // namespace

http::site make_documents() {
  const std::filesystem::path folder = std::filesystem::path(GYRE_LAB_HTTP2_FOLDER) / "documents";
  std::filesystem::create_directories(folder);
  make_document(folder / "plain", http::hello);
  make_document(folder / "upload", http::hello);
  make_document(folder / "file", http::make_pattern(http::file_bytes, 0));
  http::site made;
  made.file_path = folder / "file";
  made.file = network::checked(open(made.file_path.c_str(), O_RDONLY | O_CLOEXEC), "open");
  return made;
}

std::string folder_of(const http::site& documents) {
  return std::filesystem::path(documents.file_path).parent_path();
}

}  // namespace lab::http2
