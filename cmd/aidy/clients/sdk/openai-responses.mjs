// The openai package with Responses.
import OpenAI from 'openai';
import { abandoned, address, call, run, schema, sendable, tools } from './job.mjs';

const connect = (job) => new OpenAI({ ...address(job, { apiKey: job.key, baseURL: job.base + '/v1' }), maxRetries: job.retries });

function input(job) {
  const content = [{ type: 'input_text', text: job.prompt }];
  if (job.image) content.push({ type: 'input_image', detail: 'auto', image_url: 'data:image/png;base64,' + job.image });
  return [{ role: 'user', content }];
}

async function respond(job, body) {
  const responses = connect(job).responses;
  body = { model: job.model, instructions: job.system, max_output_tokens: 512, store: false, ...body };
  const r = job.stream ? await responses.stream(body).finalResponse() : await responses.create(body);
  return { response: r, usage: { input: r.usage.input_tokens, output: r.usage.output_tokens } };
}

// textOf is output_text, which a streamed response does not have in every version.
const textOf = (r) =>
  r.output.filter((item) => item.type === 'message').flatMap((item) => item.content).map((part) => part.text ?? '').join('');

await run({
  async text(job) {
    const { response, usage } = await respond(job, { input: input(job) });
    return { text: textOf(response), usage };
  },

  async tools(job) {
    const history = input(job);
    const calls = [];
    for (;;) {
      const { response, usage } = await respond(job, {
        input: history,
        ...(job.think && { reasoning: { effort: 'low', summary: 'auto' } }),
        include: ['reasoning.encrypted_content'],
        tools: tools.map(({ name, description, parameters }) => ({ type: 'function', name, description, parameters, strict: true })),
      });
      history.push(...response.output.map(sendable));
      const asked = response.output.filter((item) => item.type === 'function_call');
      if (asked.length === 0) return { text: textOf(response), calls, usage };
      for (const c of asked) {
        history.push({ type: 'function_call_output', call_id: c.call_id, output: call(calls, c.name, JSON.parse(c.arguments)) });
      }
    }
  },

  async structured(job) {
    const { response, usage } = await respond(job, {
      input: input(job),
      text: { format: { type: 'json_schema', name: 'report', strict: true, schema } },
    });
    const text = textOf(response);
    return { text, value: JSON.parse(text), usage };
  },

  abort: (job) =>
    abandoned(job, async function* (signal) {
      const r = await connect(job).responses.create({ model: job.model, stream: job.stream, store: false, input: input(job) }, { signal });
      if (!job.stream) return yield textOf(r);
      for await (const event of r) yield event.type === 'response.output_text.delta' ? event.delta : '';
    }),
});
