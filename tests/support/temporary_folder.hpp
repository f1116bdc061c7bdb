// SPDX-License-Identifier: Apache-2.0
// A folder for a test of files, which is removed with all that is in it.
#pragma once

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::test {

class temporary_folder {
 public:
  temporary_folder() : temporary_folder(::testing::TempDir()) {}
  /// `parent`: another folder, with '/' and the beginning of the name.
  explicit temporary_folder(const std::string& parent) : path_(parent + "gyre_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp " + path_);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  const std::string& path() const noexcept { return path_; }
  std::string operator/(std::string_view name) const { return path_ + '/' + std::string(name); }

  std::string make_file(std::string_view name, std::string_view content = "") const {
    std::ofstream(*this / name) << content;
    return *this / name;
  }
  std::string make_folder(std::string_view name) const {
    std::filesystem::create_directories(*this / name);
    return *this / name;
  }
  void make_files(std::string_view folder, std::size_t count) const {
    make_folder(folder);
    for (std::size_t each = 0; each < count; ++each) {
      make_file(std::string(folder) + "/file " + std::to_string(each));
    }
  }
  std::string link(std::string_view name, const std::string& target) const {
    std::filesystem::create_symlink(target, *this / name);
    return *this / name;
  }
  /// Without following a symlink.
  bool has(std::string_view name) const {
    struct ::stat status{};
    return ::lstat((*this / name).c_str(), &status) == 0;
  }
  /// The number of entries in the folder `name` of this one; of this one if that is empty.
  std::size_t entries(std::string_view name = "") const {
    const std::filesystem::directory_iterator all(*this / name);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  std::string content(std::string_view name) const {
    std::ifstream file(*this / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

}  // namespace gyre::test
