// The @google/genai package.
import { GoogleGenAI } from '@google/genai';
import { abandoned, address, call, run, schema, tools } from './job.mjs';

function connect(job) {
  const retryOptions = job.retries > 0 ? { attempts: job.retries + 1, initialDelay: 1, jitter: 0 } : undefined;
  const { apiKey, baseUrl } = address(job, { apiKey: job.key, baseUrl: job.base });
  return new GoogleGenAI({ apiKey, httpOptions: { baseUrl, retryOptions } });
}

function message(job) {
  const parts = [{ text: job.prompt }];
  if (job.image) parts.push({ inlineData: { mimeType: 'image/png', data: job.image } });
  return parts;
}

// say sends one message of a chat and puts a stream together.
async function say(job, chat, parts) {
  const answers = [];
  if (job.stream) {
    for await (const piece of await chat.sendMessageStream({ message: parts })) answers.push(piece);
  } else {
    answers.push(await chat.sendMessage({ message: parts }));
  }
  const u = answers.at(-1).usageMetadata;
  return {
    text: answers.flatMap((a) => a.candidates?.[0]?.content?.parts ?? []).filter((p) => !p.thought).map((p) => p.text ?? '').join(''),
    asked: answers.flatMap((a) => a.functionCalls ?? []),
    usage: { input: u.promptTokenCount, output: (u.candidatesTokenCount ?? 0) + (u.thoughtsTokenCount ?? 0) },
  };
}

const talk = (job, config) =>
  connect(job).chats.create({ model: job.model, config: { systemInstruction: job.system, maxOutputTokens: 512, ...config } });

await run({
  async text(job) {
    const { text, usage } = await say(job, talk(job), message(job));
    return { text, usage };
  },

  async tools(job) {
    const chat = talk(job, {
      ...(job.think && { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } }),
      tools: [{ functionDeclarations: tools.map(({ name, description, parameters }) => ({ name, description, parametersJsonSchema: parameters })) }],
    });
    const calls = [];
    for (let parts = message(job); ; ) {
      const { text, asked, usage } = await say(job, chat, parts);
      if (asked.length === 0) return { text, calls, usage };
      parts = asked.map((c) => ({ functionResponse: { id: c.id, name: c.name, response: { output: call(calls, c.name, c.args) } } }));
    }
  },

  async structured(job) {
    const { text, usage } = await say(job, talk(job, { responseMimeType: 'application/json', responseJsonSchema: schema }), message(job));
    return { text, value: JSON.parse(text), usage };
  },

  abort: (job) =>
    abandoned(job, async function* (signal) {
      const { models } = connect(job);
      const request = { model: job.model, contents: job.prompt, config: { abortSignal: signal } };
      if (!job.stream) return yield (await models.generateContent(request)).text;
      for await (const piece of await models.generateContentStream(request)) yield piece.text ?? '';
    }),
});
