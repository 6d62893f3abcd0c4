#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The lines of a UTF-8 text file, plain or gzip; "-" is standard input. LF and CRLF end a line, a
/// byte order mark is dropped. Throws ErrorCode::kNotFound if there is no file, kIo if it can't be
/// read, kFormat with file and line for what is not UTF-8.
std::vector<std::string> read_lines(const std::string& path);

/// {source, target} pairs: line by line of two files, or of lines `source TAB target` in one file
/// if `target_path` is empty. Throws as read_lines, and ErrorCode::kFormat for an empty file, line
/// counts that differ or a line without two columns.
std::vector<std::pair<std::string, std::string>> read_pairs(const std::string& source_path,
                                                            const std::string& target_path);

/// A column of a CSV or TSV file whose first line names its columns, plain or gzip; "-" is standard
/// input. Throws ErrorCode::kNotFound if there is no such column, with those that there are,
/// kFormat with file and line for what is no table; and as read_lines.
std::vector<std::string> read_column(const std::string& path, const std::string& column);

/// The names in a line as the first of such a file; none if it can't be one.
std::vector<std::string> column_names(const std::string& line);

/// A file to read as messages name it: "'dev.tsv'", or "standard input" for "-".
std::string name_of_input(const std::string& path);

/// "1 line", "3 lines": a number of what `noun` names, whose plural ends in s.
std::string counted(std::int64_t number, std::string_view noun);

/// "; did you mean 'train'?" to end a message about an unknown name with; "" if none is near.
std::string did_you_mean(std::string_view unknown, std::span<const std::string> known);

/// Throws now what write_text would after the work: ErrorCode::kIo or kNotFound for a file that
/// can't be made. Leaves what is there.
void require_writable(const std::string& path);

/// Whether write_text would write both names to one file, by way of links too, there or not.
bool is_same_output(const std::string& one, const std::string& other);

/// Writes a file whole or not at all: aside, synced, renamed. What is no regular file (a device, a
/// pipe) is written straight, and what a link leads to in its place. Throws ErrorCode::kIo.
void write_text(const std::string& path, std::string_view text);

}  // namespace sluice
