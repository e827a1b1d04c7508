-- What an editor shows, written to a file: findings of a program that was opened, and of the same when it was changed.
-- The settings are those of `gpudoctor explain editors`, with the command of the test.

local command, program, answer = arg_command, arg_program, arg_answer
vim.cmd("edit " .. program)
vim.bo.filetype = "python"
local id = vim.lsp.start_client({
  name = "gpudoctor",
  cmd = command,
  root_dir = vim.fn.fnamemodify(program, ":h"),
})
vim.lsp.buf_attach_client(0, id)

local function codes()
  return vim.tbl_map(function(each) return each.code end, vim.diagnostic.get(0))
end

local seen = {}
vim.wait(20000, function() return #codes() > 0 end, 20)
seen.bad = codes()
local params = vim.lsp.util.make_range_params()
local line = vim.diagnostic.get(0)[1].lnum
params.range = { start = { line = line, character = 0 }, ["end"] = { line = line, character = 0 } }
params.context = { diagnostics = {}, only = { "quickfix" } }
local client = vim.lsp.get_client_by_id(id)
local answered = client.request_sync("textDocument/codeAction", params, 20000, 0)
seen.title = answered.result[1].title
vim.lsp.util.apply_workspace_edit(answered.result[1].edit, client.offset_encoding)
vim.wait(20000, function() return #codes() == 0 end, 20)
seen.fixed = codes()
seen.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
vim.fn.writefile({ vim.fn.json_encode(seen) }, answer)
vim.cmd("qall!")
