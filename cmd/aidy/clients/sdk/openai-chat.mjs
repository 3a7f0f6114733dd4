// The openai package with Chat Completions.
import OpenAI from 'openai';
import { abandoned, address, call, run, schema, sendable, tools } from './job.mjs';

const connect = (job) => new OpenAI({ ...address(job, { apiKey: job.key, baseURL: job.base + '/v1' }), maxRetries: job.retries });

function messages(job) {
  const content = job.image
    ? [{ type: 'text', text: job.prompt }, { type: 'image_url', image_url: { url: 'data:image/png;base64,' + job.image } }]
    : job.prompt;
  return [{ role: 'system', content: job.system }, { role: 'user', content }];
}

async function complete(job, body) {
  const completions = connect(job).chat.completions;
  body = { model: job.model, max_completion_tokens: 512, ...body };
  const r = job.stream
    ? await completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
    : await completions.create(body);
  return { message: r.choices[0].message, usage: { input: r.usage.prompt_tokens, output: r.usage.completion_tokens } };
}

await run({
  async text(job) {
    const { message, usage } = await complete(job, { messages: messages(job) });
    return { text: message.content, usage };
  },

  async tools(job) {
    const history = messages(job);
    const calls = [];
    for (;;) {
      const { message, usage } = await complete(job, {
        messages: history,
        ...(job.think && { reasoning_effort: 'low' }),
        tools: tools.map(({ name, description, parameters }) => ({ type: 'function', function: { name, description, parameters, strict: true } })),
      });
      history.push(sendable(message));
      if (!message.tool_calls?.length) return { text: message.content, calls, usage };
      for (const c of message.tool_calls) {
        history.push({ role: 'tool', tool_call_id: c.id, content: call(calls, c.function.name, JSON.parse(c.function.arguments)) });
      }
    }
  },

  async structured(job) {
    const { message, usage } = await complete(job, {
      messages: messages(job),
      response_format: { type: 'json_schema', json_schema: { name: 'report', strict: true, schema } },
    });
    return { text: message.content, value: JSON.parse(message.content), usage };
  },

  abort: (job) =>
    abandoned(job, async function* (signal) {
      const r = await connect(job).chat.completions.create({ model: job.model, stream: job.stream, messages: messages(job) }, { signal });
      if (!job.stream) return yield r.choices[0].message.content;
      for await (const chunk of r) yield chunk.choices[0]?.delta.content ?? '';
    }),
});
