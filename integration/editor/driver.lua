-- What runs inside Neovim: it connects to the Go side's socket, carries out one
-- command per line (JSON in, JSON out) and reports what the person would see.
-- Neovim's own LSP client does all LSP; nothing here waits except on conditions.

local pipe = assert(vim.uv.new_pipe(false))
local ops = {}
local config

local function send(message)
  if not pipe:is_closing() then
    pipe:write(vim.json.encode(message) .. '\n')
  end
end

-- A client that has gone cannot meet any condition any more.
local gone

-- wait returns when condition holds, and fails at once when it never can.
local function wait(what, condition)
  local met = vim.wait(config.timeout, function()
    return gone ~= nil or condition()
  end, 20)
  if not condition() then
    error(gone or (met and what or ('waited too long for ' .. what)), 0)
  end
end

local function client_of(buffer)
  for _, client in ipairs(vim.lsp.get_clients({ bufnr = buffer })) do
    if client.initialized then
      return client
    end
  end
end

-- Neovim 0.11 made these methods; the dotted form ends with 0.13.
local function ask(client, method, params, callback, buffer)
  if vim.fn.has('nvim-0.11') == 1 then
    return client:request(method, params, callback, buffer)
  end
  return client.request(method, params, callback, buffer)
end

local function buffer_of(path)
  local buffer = vim.fn.bufnr('^' .. vim.fn.escape(path, '\\*?[]{}^$,') .. '$')
  if buffer < 0 then
    error(path .. ' is not open', 0)
  end
  return buffer
end

-- place puts the cursor where args say: on the first byte of args.at, or behind
-- the last byte of args.after.
local function place(args)
  local buffer = buffer_of(args.path)
  vim.api.nvim_win_set_buf(0, buffer)
  local text = args.at or args.after
  for row, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, false)) do
    local first, last = line:find(text, 1, true)
    if first then
      vim.api.nvim_win_set_cursor(0, { row, args.at and first - 1 or last })
      return buffer
    end
  end
  error(('%s has no line with %q'):format(args.path, text), 0)
end

function ops.start(args)
  config = args
  vim.o.virtualedit = 'onemore' -- so that the cursor can stand behind a line's last character
  vim.o.hidden = true
  vim.api.nvim_create_autocmd('FileType', {
    pattern = config.filetypes,
    callback = function(event)
      vim.lsp.start({
        name = 'server',
        cmd = config.command,
        root_dir = config.dir,
        settings = config.settings or vim.empty_dict(),
        init_options = config.options,
        on_exit = function(code, signal)
          gone = ('the language server has ended: status %d, signal %d'):format(code, signal)
          send({ event = 'exit', code = code, signal = signal })
        end,
      }, { bufnr = event.buf })
    end,
  })
  local publish = vim.lsp.handlers['textDocument/publishDiagnostics']
  vim.lsp.handlers['textDocument/publishDiagnostics'] = function(err, result, ...)
    send({ event = 'publish', params = result })
    return publish(err, result, ...)
  end
  for _, method in ipairs({ 'window/showMessage', 'window/logMessage' }) do
    vim.lsp.handlers[method] = function(_, result)
      send({ event = 'message', params = result })
    end
  end
  vim.api.nvim_create_autocmd('DiagnosticChanged', {
    callback = function(event)
      send({
        event = 'diagnostics',
        path = vim.api.nvim_buf_get_name(event.buf),
        diagnostics = vim.tbl_map(function(d)
          return { line = d.lnum, column = d.col, severity = d.severity, message = d.message, source = d.source }
        end, vim.diagnostic.get(event.buf)),
      })
    end,
  })
  return { version = tostring(vim.version()) }
end

function ops.open(args)
  vim.cmd.edit(vim.fn.fnameescape(args.path))
  local buffer = vim.api.nvim_get_current_buf()
  wait('a language server on ' .. args.path, function()
    return client_of(buffer) ~= nil
  end)
  return { encoding = client_of(buffer).offset_encoding, server = client_of(buffer).server_info }
end

-- type: the text arrives as keys in insert mode, with everything that Neovim
-- does then (indentation included).
function ops.type(args)
  place(args)
  local at_start = vim.api.nvim_win_get_cursor(0)[2] == 0
  if not at_start then
    vim.cmd.normal({ 'h', bang = true })
  end
  local keys = (at_start and 'i' or 'a') .. args.text:gsub('\n', '\r') .. '\27'
  vim.api.nvim_feedkeys(keys, 'nx', false)
end

-- replace: as a person who selects a text and types another in its place.
function ops.replace(args)
  local buffer = place(args)
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  vim.api.nvim_buf_set_text(buffer, row - 1, column, row - 1, column + #args.at, vim.split(args.text, '\n'))
end

-- request: method for the place, with args.more added to its parameters. The
-- time runs from before Neovim flushes pending changes until the answer is
-- decoded.
function ops.request(args)
  local buffer = place(args)
  local client = client_of(buffer) or error('no language server on ' .. args.path, 0)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params = vim.tbl_extend('force', params, args.more or {})
  local done, failed, result, stop
  local began = vim.uv.hrtime()
  ask(client, args.method, params, function(err, answer)
    stop = vim.uv.hrtime()
    done, failed, result = true, err, answer
  end, buffer)
  wait('an answer to ' .. args.method, function()
    return done
  end)
  if failed then
    error(('%s: %s'):format(args.method, failed.message or vim.inspect(failed)), 0)
  end
  return { nanoseconds = stop - began, result = result }
end

-- apply: a workspace edit, as Neovim applies the answer to a rename.
function ops.apply(args)
  local client = vim.lsp.get_clients()[1] or error('no language server', 0)
  vim.lsp.util.apply_workspace_edit(args.edit, client.offset_encoding)
  local changed = {}
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.bo[buffer].modified then
      table.insert(changed, vim.api.nvim_buf_get_name(buffer))
    end
  end
  return { modified = changed }
end

function ops.text(args)
  local buffer = buffer_of(args.path)
  return { text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n') .. '\n' }
end

function ops.undo(args)
  vim.api.nvim_win_set_buf(0, buffer_of(args.path))
  vim.cmd('silent undo 0')
end

function ops.save()
  vim.cmd('silent wall')
end

function ops.quit()
  vim.schedule(function()
    vim.cmd('qall!')
  end)
end

local function run(line)
  local command = vim.json.decode(line, { luanil = { object = true } })
  local ok, answer = pcall(ops[command.op], command.args or {})
  send({ id = command.id, ok = ok, result = ok and answer or nil, error = not ok and tostring(answer) or nil })
end

local rest = ''
pipe:connect(vim.g.editor_socket, function(err)
  assert(not err, err)
  pipe:read_start(function(failed, chunk)
    if failed or not chunk then -- the Go side has gone: nobody would end this Neovim
      vim.schedule(function()
        vim.cmd('qall!')
      end)
      return
    end
    rest = rest .. chunk
    while true do
      local line, behind = rest:match('^([^\n]*)\n(.*)$')
      if not line then
        return
      end
      rest = behind
      vim.schedule(function()
        run(line)
      end)
    end
  end)
end)
