-- A session of Neovim with `gpulint lsp`, by Neovim's own client, from version 0.7 on:
--
--   PROGRAM=gpulint nvim --headless --clean -n -i NONE -c 'luafile session.lua'
--
-- in the folder that tests/it/lsp/session.rs wrote. Prints one JSON line for each step: what the client saw.

local root = vim.fn.getcwd()
local exited
local PATIENCE = tonumber(vim.env.PATIENCE or 30000)

-- Anything that goes wrong ends the run.
local function quit(message)
  io.stderr:write(message .. '\n')
  vim.cmd('cquit 3')
end

local function say(step, saw)
  io.stdout:write(vim.fn.json_encode({ step = step, saw = saw }) .. '\n')
end

local function path(name)
  return root .. '/' .. name
end

-- Rules by file, from the diagnostics that Neovim has for all its buffers.
local function rules()
  local found = vim.empty_dict()
  for _, one in ipairs(vim.diagnostic.get()) do
    local name = vim.api.nvim_buf_get_name(one.bufnr):sub(#root + 2)
    local code = one.code or one.user_data.lsp.code
    found[name] = found[name] or {}
    table.insert(found[name], (one.lnum + 1) .. ' ' .. code)
  end
  for _, of in pairs(found) do
    table.sort(of)
  end
  return found
end

local function sees(step, expected)
  vim.wait(PATIENCE, function()
    return vim.deep_equal(rules(), expected)
  end, 20)
  say(step, rules())
end

-- Moves the cursor to a text, `inside` bytes into it.
local function to(text, inside)
  vim.fn.cursor(1, 1)
  if vim.fn.search('\\V' .. vim.fn.escape(text, '\\'), 'cW') == 0 then
    quit('no ' .. text .. ' in\n' .. table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n'))
  end
  if inside then
    vim.fn.cursor(vim.fn.line('.'), vim.fn.col('.') + inside)
  end
end

local function replace(old, new)
  to(old)
  vim.cmd('s/\\V' .. vim.fn.escape(old, '/\\') .. '/' .. vim.fn.escape(new, '/\\&~'))
end

-- Keys as a user types them.
local function keys(typed)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(typed, true, false, true), 'tx', false)
end

local client = vim.lsp.start_client({
  name = 'gpulint',
  cmd = { vim.env.PROGRAM, 'lsp' },
  root_dir = root,
  workspace_folders = { { uri = vim.uri_from_fname(root), name = 'infra' } },
  init_options = { inlayHints = false },
  on_exit = function(code)
    exited = code
  end,
})
vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile' }, {
  pattern = '*.yaml',
  callback = function(event)
    vim.lsp.buf_attach_client(event.buf, client)
  end,
})
vim.o.hidden = true
vim.o.swapfile = false
-- A line is typed as it stands.
vim.api.nvim_create_autocmd('FileType', {
  callback = function()
    vim.bo.indentexpr, vim.bo.autoindent, vim.bo.indentkeys, vim.bo.formatoptions = '', false, '', ''
  end,
})

local function request(method, params)
  local answers, failure = vim.lsp.buf_request_sync(0, method, params, PATIENCE)
  if not answers then
    quit(method .. ': ' .. failure)
  end
  local answer = answers[client]
  if answer.error then
    quit(method .. ': ' .. vim.inspect(answer.error))
  end
  return answer.result
end

local function watched(name, kind)
  local changes = { { uri = vim.uri_from_fname(path(name)), type = kind } }
  vim.lsp.get_client_by_id(client).notify('workspace/didChangeWatchedFiles', { changes = changes })
end

local function write(name, lines)
  vim.fn.writefile(lines, path(name))
end

local function session()
  local old = { ['hpa.yaml'] = { '1 removed-api-version' } }
  vim.cmd('edit pools.yaml')
  sees('open', old)

  to('taints:')
  keys('2dd')
  sees('a taint removed', vim.tbl_extend('error', old, { ['pools.yaml'] = { '8 gpu-pool-untainted' } }))
  to('nodeClassRef')
  keys("o      taints: [{key: nvidia.com/gpu, value: 'ja 😀', effect: NoSchedule}]<Esc>")
  sees('a taint typed', old)

  vim.cmd('edit hpa.yaml')
  to('autoscaling/v2beta2')
  -- Neovim asks which action; the preferred one is chosen.
  local preferred
  vim.ui.select = function(items, _, choose)
    local chosen = vim.tbl_filter(function(item)
      return item[2].isPreferred
    end, items)
    preferred = vim.tbl_map(function(item)
      return item[2].kind
    end, chosen)
    choose(chosen[1], 1)
  end
  vim.lsp.buf.code_action({ context = { only = { 'quickfix' } } })
  vim.wait(PATIENCE, function()
    return preferred ~= nil
  end)
  say('preferred actions', preferred)
  sees('fixed', vim.empty_dict())
  say('the text', vim.fn.getline(1))

  vim.cmd('edit pools.yaml')
  to('g6.2xlarge', 3)
  vim.lsp.buf.hover()
  local float
  vim.wait(PATIENCE, function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= '' then
        float = window
      end
    end
    return float ~= nil
  end)
  local shown = float and vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(float), 0, -1, false) or {}
  say('hover', vim.tbl_filter(function(word)
    return table.concat(shown, '\n'):find(word, 1, true) ~= nil
  end, { '1 × l4', 'an hour' }))
  if float then
    vim.api.nvim_win_close(float, true)
  end

  replace('operator: In, values: [amd64]', 'operator: ')
  to('arch, operator: ', #'arch, operator: ')
  local answer = request('textDocument/completion', vim.lsp.util.make_position_params())
  local labels = vim.tbl_map(function(item)
    return item.label
  end, answer.items or answer)
  labels = vim.tbl_filter(function(label)
    return vim.tbl_contains({ 'In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt' }, label)
  end, labels)
  table.sort(labels)
  say('completion', labels)
  replace('arch, operator: ', 'arch, operator: In, values: [amd64]')
end

local function links()
  to('EC2NodeClass, name: gpu', #'EC2NodeClass, name: ')
  vim.lsp.buf.definition()
  vim.wait(PATIENCE, function()
    return vim.fn.expand('%:t') ~= 'pools.yaml'
  end)
  say('definition', { vim.fn.expand('%:t') .. ':' .. vim.fn.line('.') })
  vim.cmd('edit class.yaml')
  to('name: gpu', #'name: ')
  local params = vim.lsp.util.make_position_params()
  params.context = { includeDeclaration = false }
  local found = vim.tbl_map(function(one)
    return vim.uri_to_fname(one.uri):sub(#root + 2) .. ':' .. (one.range.start.line + 1)
  end, request('textDocument/references', params))
  table.sort(found)
  say('references', found)
end

local function others()
  local missing = { ['pools.yaml'] = { '10 node-class-missing' } }
  replace('name: gpu}', 'name: gpux}')
  sees('a class renamed', missing)
  keys('u')
  sees('the class named as before', vim.empty_dict())
  vim.cmd('bdelete!')
  local kept = vim.fn.readfile(path('class.yaml'))
  os.remove(path('class.yaml'))
  watched('class.yaml', 3)
  sees('its file deleted', missing)
  write('class.yaml', kept)
  watched('class.yaml', 1)
  sees('its file written', vim.empty_dict())

  vim.cmd('buffer pools.yaml')
  replace('metadata: {name: gpu}', 'metadata: {name: gpu')
  sees('YAML broken', { ['pools.yaml'] = { '4 yaml-syntax' } })
  keys('u')
  sees('YAML mended', vim.empty_dict())

  -- Without a buffer the file on the disk counts, which was never saved.
  vim.cmd('bdelete! hpa.yaml')
  sees('closed without saving', { ['hpa.yaml'] = { '1 removed-api-version' } })
  local lines = vim.fn.readfile(path('gpulint.yaml'))
  write('gpulint.yaml', vim.tbl_map(function(line)
    return (line:gsub('removed%-api%-version: error', 'removed-api-version: off'))
  end, lines))
  watched('gpulint.yaml', 2)
  sees('the rule switched off', vim.empty_dict())

  vim.lsp.stop_client(client)
  vim.wait(PATIENCE, function()
    return exited ~= nil
  end)
  say('exit code', exited)
end

for _, part in ipairs({ session, links, others }) do
  local ok, failure = pcall(part)
  if not ok then
    quit(failure)
  end
end
io.stdout:flush()
vim.cmd('qall!')
